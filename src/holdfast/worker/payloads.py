"""Arguments and results as bytes, and the calls that turn one into the other.

A call is a msgpack array of its positional arguments. One with keywords starts with a byte that
msgpack never uses, followed by the array `[arguments, keywords]`, so one look at the first byte
tells them apart. A pickled result starts with that same byte: nobody unpickles by accident.

kinds:  function   the target is a name, the arguments are msgpack
        array      the same, called with the task's index before the shared arguments
        pickle     the user asked for it: the target holds the function, the payload its arguments
"""

import base64
import importlib
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.msgpack import Decoder, Encoder

from holdfast.wire.exchange import Item
from holdfast.worker.functions import CannotFind, plain, resolve
from holdfast.worker.plans import decoder_for, plan_of

Bound = Callable[[Item], bytes]
Complete = Callable[[Coroutine[Any, Any, Any]], Any]

PICKLE_PREFIX: Final = "pickle:"

_MARK: Final = 0xC1
_MARK_BYTE: Final = b"\xc1"
_NO_ARGUMENTS: Final = b"\x90"
_ENCODE: Final = Encoder().encode
_DECODE: Final[Callable[[bytes], Any]] = Decoder().decode
_REFUSALS: Final = (TypeError, OverflowError, ValueError, RecursionError)
_REMEDY: Final = "Use plain types (numbers, text, lists, dicts, dataclasses), or pickle=True."


class CannotEncode(ValueError):
    """A value that has no form on the wire."""


def encode_call(
    args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, *, pickle: bool = False
) -> bytes:
    """The payload of one call, or `CannotEncode` naming the argument that has no form."""
    if pickle:
        return _pickled((tuple(args), dict(kwargs or {})), "the arguments")
    try:
        if not kwargs:
            return _ENCODE(args if type(args) in (list, tuple) else list(args))
        return _MARK_BYTE + _ENCODE((tuple(args), dict(kwargs)))
    except _REFUSALS as error:
        culprit = _culprit(args, kwargs or {})
        raise CannotEncode(f"{culprit} cannot be sent: {error}. {_REMEDY}") from error


def decode_call(payload: bytes, *, pickle: bool = False) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call as they arrive, before any annotation is honoured."""
    if pickle:
        args, kwargs = _pickles().loads(payload)
        return args, kwargs
    if payload[0] == _MARK:
        positional, kwargs = _DECODE(payload[1:])
        return tuple(positional), kwargs
    return tuple(_DECODE(payload)), {}


def encode_result(value: Any, *, pickle: bool = False) -> bytes:
    """The bytes of a result, or `CannotEncode` saying what to return instead."""
    if pickle:
        return _MARK_BYTE + _pickled(value, "the result")
    try:
        return _ENCODE(value)
    except _REFUSALS as error:
        is_generator = inspect.isgenerator(value) or inspect.isasyncgen(value)
        advice = "Return a list." if is_generator else _REMEDY
        raise CannotEncode(
            f"the function returned a {type(value).__name__} that cannot be sent: {error}. {advice}"
        ) from error


def decode_result(payload: bytes, annotation: Any = Any, *, pickle: bool = False) -> Any:
    """The value of a result, as the type its function promises where that can be made.

    A result that does not fit the annotation comes as it is: it was committed, and Python itself
    never held the function to its word. A pickled one is read only by a caller who allows it,
    since reading it runs code.
    """
    if payload[:1] == _MARK_BYTE:
        if not pickle:
            raise ValueError("this result is pickled; reading it needs pickle=True")
        return _pickles().loads(payload[1:])
    try:
        return decoder_for(annotation).decode(payload)
    except msgspec.ValidationError:
        return _DECODE(payload)


def pickled_target(function: Callable[..., Any]) -> str:
    """A target that carries the function itself, for code that has no name.

    It is stored once a job, not once a task.
    """
    inner = plain(function)
    label = str(getattr(inner, "__qualname__", type(inner).__name__)).replace(":", ".")
    body = base64.b64encode(_pickled(inner, "the function")).decode("ascii")
    return f"{PICKLE_PREFIX}{label}:{body}"


def bind(kind: str, target: str, complete: Complete) -> Bound:
    """Prepare a function to be called many times with wire items.

    All that can be found out once is found out here: the function, whether it is a coroutine
    function, which annotations it has. `complete` runs a coroutine to its end; a lane passes the
    loop it owns.
    """
    if kind == "pickle":
        return _bind_pickle(_unpickled_function(target), complete)
    function = resolve(target)
    if kind == "function":
        return _bind_function(function, complete)
    if kind == "array":
        return _bind_array(function, complete)
    raise CannotFind(target, f"no executor knows tasks of kind {kind!r}")


def _bind_function(function: Callable[..., Any], complete: Complete) -> Bound:
    plan = plan_of(function)
    finish = _finisher(complete)
    if plan is None and not inspect.iscoroutinefunction(function):
        return _fast(function, finish)
    positional = _DECODE if plan is None else plan.positional
    with_keywords = _DECODE if plan is None else plan.with_keywords

    def call(item: Item) -> bytes:
        payload = item.payload
        if payload[0] == _MARK:
            args, kwargs = with_keywords(payload[1:])
            return finish(function(*args, **kwargs))
        return finish(function(*positional(payload)))

    return call


def _fast(function: Callable[..., Any], finish: Callable[[Any], bytes]) -> Bound:
    """The shortest way there is: no annotations to honour, no loop to run."""
    decode, encode = _DECODE, _ENCODE

    def call(item: Item) -> bytes:
        payload = item.payload
        if payload[0] == _MARK:
            args, kwargs = decode(payload[1:])
            value = function(*args, **kwargs)
        else:
            value = function(*decode(payload))
        try:
            return encode(value)
        except _REFUSALS:
            return finish(value)

    return call


def _bind_array(function: Callable[..., Any], complete: Complete) -> Bound:
    plan = plan_of(function, skip=1)
    finish = _finisher(complete)
    positional = _DECODE if plan is None else plan.positional
    with_keywords = _DECODE if plan is None else plan.with_keywords

    def call(item: Item) -> bytes:
        payload = item.payload or _NO_ARGUMENTS
        if payload[0] == _MARK:
            args, kwargs = with_keywords(payload[1:])
            return finish(function(item.index, *args, **kwargs))
        return finish(function(item.index, *positional(payload)))

    return call


def _bind_pickle(function: Callable[..., Any], complete: Complete) -> Bound:
    finish = _finisher(complete, pickle=True)
    loads = _pickles().loads

    def call(item: Item) -> bytes:
        args, kwargs = loads(item.payload)
        return finish(function(*args, **kwargs))

    return call


def _finisher(complete: Complete, *, pickle: bool = False) -> Callable[[Any], bytes]:
    def finish(value: Any) -> bytes:
        # Asked of the value, not of the function: a decorator may hide a coroutine function.
        if inspect.iscoroutine(value):
            value = complete(value)
        return encode_result(value, pickle=pickle)

    return finish


def _unpickled_function(target: str) -> Callable[..., Any]:
    label, colon, body = target.removeprefix(PICKLE_PREFIX).partition(":")
    if not target.startswith(PICKLE_PREFIX) or not colon:
        raise CannotFind(target[:200], "a pickled target has the form pickle:label:body")
    try:
        function: Callable[..., Any] = _pickles().loads(base64.b64decode(body))
    except Exception as error:
        raise CannotFind(f"{PICKLE_PREFIX}{label}", f"{type(error).__name__}: {error}") from error
    return function


def _pickles() -> Any:
    """Loaded when first needed: most children never see a pickle."""
    return importlib.import_module("holdfast.worker.pickles")


def _pickled(value: Any, what: str) -> bytes:
    try:
        body: bytes = _pickles().dumps(value)
    except Exception as error:
        # Pickling runs the user's own code, which may raise anything.
        raise CannotEncode(f"{what} cannot be pickled: {error}") from error
    return body


def _culprit(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Which argument has no form, in the words a caller would use for it."""
    places = [(f"argument {place}", value) for place, value in enumerate(args, start=1)]
    names = [(f"argument {name}", value) for name, value in kwargs.items()]
    for label, value in places + names:
        try:
            _ENCODE(value)
        except _REFUSALS:
            return f"{label} ({type(value).__name__})"
    return "the call"
