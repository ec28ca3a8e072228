"""From a function and its arguments to what is recorded, and back from a result to a value."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.client.backend import Decode
from holdfast.client.errors import Refused
from holdfast.client.placing import PLACING_WORDS
from holdfast.client.task import Options, options_of
from holdfast.core.spec import JobSpec
from holdfast.wire.amounts import text
from holdfast.worker.functions import plain, reference, resolve
from holdfast.worker.payloads import decode_result, encode_call, pickled_target
from holdfast.worker.plans import decoder_for

MAX_PAYLOAD_BYTES = 1024 * 1024

REMEMBERED = 1_024

OPTION_WORDS = ("pickle", "max_parallel", "max_failed_tasks", *PLACING_WORDS)
"""Options of a function that a call may change for itself."""


class Call(Struct, frozen=True):
    """What runs and how. `payload` is that of a single call or shared by an array; `encode` makes
    the payload of one item of a map."""

    spec: JobSpec
    decode: Decode
    payload: bytes
    encode: Callable[[Any], bytes]


def single_call(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    words: Mapping[str, Any],
    caller: str = "submit",
) -> Call:
    """`words` are those that `submit` takes for itself; so also below."""
    _check_words(function, args, words, caller)
    _check_arguments(function, args, kwargs)
    options = _options(function, words)
    payload = encode_call(args, kwargs, pickle=options.pickle)
    return _call(function, options, "function", words["name"], check_size(payload))


def map_call(function: Callable[..., Any], *, words: Mapping[str, Any]) -> Call:
    return _call(function, _options(function, words), "function", words["name"], b"")


def array_call(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    words: Mapping[str, Any],
) -> Call:
    _check_words(function, (0, *args), words, "array")
    _check_arguments(function, (0, *args), kwargs)
    options = _options(function, words)
    if options.pickle:
        raise Refused("invalid", "an array cannot be pickled; use map() with pickle=True")
    payload = encode_call(args, kwargs)
    return _call(function, options, "array", words["name"], check_size(payload))


def check_size(payload: bytes) -> bytes:
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise Refused(
            "too_large",
            f"the arguments take {len(payload):,} bytes, over the limit of "
            f"{MAX_PAYLOAD_BYTES:,}; put them in a file and pass its path",
        )
    return payload


def digest_of(spec: JobSpec, *parts: bytes) -> bytes:
    """What a key stands for: the same call gives the same digest."""
    digest = blake2b(msgspec.msgpack.encode(spec), digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def decoder_of(kind: str, target: str) -> Decode:
    """For a job found again: by its function's hints where the function can be found."""
    if kind == "pickle":
        return lambda data: decode_result(data, pickle=True)
    try:
        return _decoder(resolve(target), pickle=False)
    except Exception:  # noqa: BLE001 - results can be read without the code that made them
        return decode_result


def _call(
    function: Callable[..., Any], options: Options, kind: str, name: str | None, payload: bytes
) -> Call:
    inner = plain(function)
    known = text(name, "name") or str(getattr(inner, "__name__", type(inner).__name__))
    if options.pickle:
        spec = options.spec("pickle", pickled_target(inner), known)
    else:
        spec = options.spec(kind, _target(function), known)
    pickle = options.pickle
    return Call(spec, _decoder(inner, pickle=pickle), payload, _item_encoder(pickle=pickle))


def _item_encoder(*, pickle: bool) -> Callable[[Any], bytes]:
    """The payload of one item of a map: by the shortest way, or by the one that tells what is
    wrong with it."""
    if pickle:
        return lambda item: check_size(encode_call((item,), pickle=True))
    quick = msgspec.msgpack.Encoder().encode

    def encode(item: Any) -> bytes:
        try:
            payload = quick((item,))
        except Exception:  # noqa: BLE001 - the long way says it better
            payload = encode_call((item,))
        return payload if len(payload) <= MAX_PAYLOAD_BYTES else check_size(payload)

    return encode


def _options(function: Callable[..., Any], words: Mapping[str, Any]) -> Options:
    """Those of the function, but for what this call says otherwise."""
    told = {name: words.get(name) for name in OPTION_WORDS}
    given = {name: value for name, value in told.items() if value is not None}
    options = options_of(function)
    # What is unchanged was judged when it was written down.
    return msgspec.structs.replace(options, **given) if given else options


def _decoder(function: Callable[..., Any], *, pickle: bool) -> Decode:
    annotation = getattr(function, "__annotations__", {}).get("return", Any)
    if isinstance(annotation, str):
        try:
            annotation = inspect.get_annotations(function, eval_str=True).get("return", Any)
        except Exception:  # noqa: BLE001 - a hint that cannot be read is no hint
            annotation = Any
    if pickle:
        return lambda data: decode_result(data, annotation, pickle=True)
    quick = decoder_for(annotation).decode

    def decode(data: bytes) -> Any:
        try:
            return quick(data)
        except msgspec.MsgspecError:
            return decode_result(data, annotation)

    return decode


def _check_words(
    function: Callable[..., Any], args: Sequence[Any], words: Mapping[str, Any], caller: str
) -> None:
    """A word that could have been meant for the function is not guessed at: say so instead."""
    signature = _signature(plain(function))
    if signature is None:
        return
    taken = _given_by_place(signature, args)
    for word, value in words.items():
        if value is not None and word in signature.parameters and word not in taken:
            raise TypeError(
                f"{plain(function).__name__} has a parameter {word!r}, a word that {caller}() "
                "takes for itself; give it by its place, or rename the parameter"
            )


def _given_by_place(signature: inspect.Signature, args: Sequence[Any]) -> set[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    places = [name for name, each in signature.parameters.items() if each.kind in kinds]
    return set(places[: len(args)])


def _check_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """A call that cannot even begin is refused here, not after a trip through the log."""
    signature = _signature(plain(function))
    if signature is None:
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name = plain(function).__name__
        strange = (word for word in kwargs if word not in signature.parameters)
        option = next((word for word in strange if word in Options.__struct_fields__), "")
        hint = f"; {option} is an option of the task: @task({option}=…)" if option else ""
        raise TypeError(f"{name}{signature}: {error}{hint}") from None


# Reading a signature and finding a name take longer than all the rest of a submit.
@lru_cache(maxsize=REMEMBERED)
def _read_signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


_named = lru_cache(maxsize=REMEMBERED)(reference)


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    """How a function is called; None where nobody can tell."""
    try:
        return _read_signature(function)
    except (TypeError, ValueError):
        return None


def _target(function: Callable[..., Any]) -> str:
    try:
        hash(function)
    except TypeError:
        return reference(function)
    return _named(function)
