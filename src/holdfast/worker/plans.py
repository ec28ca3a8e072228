"""How the arguments of one function become the types it asks for.

On the wire a tuple, a set or a dataclass is a plain array or map. A function that says which it
wants in its annotations gets it; one that asks only for plain types needs no plan at all, and
takes the fast way. Annotations are read once a function.
"""

import functools
import inspect
import typing
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from msgspec import inspect as types
from msgspec.msgpack import Decoder

_NIL: Final = b"\xc0"
_ANY: Final[Decoder[Any]] = Decoder()
_ARGUMENTS: Final = Decoder(list[msgspec.Raw])
_ARGUMENTS_AND_KEYWORDS: Final = Decoder(tuple[list[msgspec.Raw], dict[str, msgspec.Raw]])

# Types that arrive from the wire as they were sent.
_PLAIN: Final = (
    types.AnyType,
    types.NoneType,
    types.BoolType,
    types.IntType,
    types.FloatType,
    types.StrType,
    types.BytesType,
    types.LiteralType,
)

# Where the description of a type keeps the types it is made of.
_PARTS: Final = ("type", "types", "item_type", "item_types", "key_type", "value_type", "fields")


class BadArgument(TypeError):
    """An argument that does not fit the annotation of the function it was sent to."""


class Plan:
    """A decoder for each argument of one function, by place and by name.

    None fits every annotation: `size: tuple[int, int] = None` is common, and works in Python.
    """

    def __init__(
        self,
        positional: list[tuple[str, Decoder[Any]]],
        named: dict[str, Decoder[Any]],
        rest: Decoder[Any],
        other: Decoder[Any],
    ) -> None:
        self._positional = positional
        self._named = named
        self._rest = rest
        self._other = other

    def positional(self, payload: bytes) -> list[Any]:
        """The arguments of a call that has no keywords."""
        return self._by_place(_ARGUMENTS.decode(payload))

    def with_keywords(self, payload: bytes) -> tuple[list[Any], dict[str, Any]]:
        raw_args, raw_kwargs = _ARGUMENTS_AND_KEYWORDS.decode(payload)
        kwargs = {
            name: _converted(name, self._named.get(name, self._other), raw)
            for name, raw in raw_kwargs.items()
        }
        return self._by_place(raw_args), kwargs

    def _by_place(self, raws: list[msgspec.Raw]) -> list[Any]:
        known = self._positional
        return [
            _converted(known[place][0], known[place][1], raw)
            if place < len(known)
            else _converted(f"number {place + 1}", self._rest, raw)
            for place, raw in enumerate(raws)
        ]


def plan_of(function: Callable[..., Any], *, skip: int = 0) -> Plan | None:
    """The plan for a function, or None when its arguments can be passed as they arrive.

    `skip` leaves out leading parameters that are not part of the payload.
    """
    if not inspect.isroutine(function):
        return None
    try:
        hints = typing.get_type_hints(function, include_extras=True)
        parameters = list(inspect.signature(function).parameters.values())
    except Exception:  # noqa: BLE001 - reading annotations runs them, and they may be mere notes
        # Annotations that cannot be read ask for nothing.
        return None
    positional: list[tuple[str, Decoder[Any]]] = []
    named: dict[str, Decoder[Any]] = {}
    rest = other = _ANY
    for parameter in parameters:
        decoder = decoder_for(hints.get(parameter.name, Any))
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = decoder
        elif parameter.kind is parameter.VAR_KEYWORD:
            other = decoder
        else:
            named[parameter.name] = decoder
            if parameter.kind is not parameter.KEYWORD_ONLY:
                positional.append((parameter.name, decoder))
    if all(decoder is _ANY for decoder in (rest, other, *named.values())):
        return None
    return Plan(positional[skip:], named, rest, other)


def decoder_for(annotation: Any) -> Decoder[Any]:
    """The decoder that makes a value of this type; the plain one where none is needed or known."""
    try:
        return _decoder(annotation)
    except Exception:  # noqa: BLE001 - a field's type may be known to a type checker alone
        # An annotation that cannot be hashed or read, or that msgspec does not know.
        return _ANY


@functools.lru_cache(maxsize=1024)
def _decoder(annotation: Any) -> Decoder[Any]:
    kind = types.type_info(annotation)
    if _arrives_as_sent(kind) or not _can_be_made(kind, set()):
        return _ANY
    return Decoder(annotation)


def _arrives_as_sent(kind: types.Type) -> bool:
    if isinstance(kind, types.ListType):
        return _arrives_as_sent(kind.item_type)
    if isinstance(kind, types.DictType):
        return _arrives_as_sent(kind.key_type) and _arrives_as_sent(kind.value_type)
    if isinstance(kind, types.UnionType):
        return all(_arrives_as_sent(each) for each in kind.types)
    return isinstance(kind, _PLAIN)


def _can_be_made(kind: object, seen: set[int]) -> bool:
    """Whether no part of a type is a class msgspec cannot build."""
    if id(kind) in seen:
        return True
    seen.add(id(kind))
    if isinstance(kind, types.CustomType):
        return False
    parts: Iterable[object] = ()
    if isinstance(kind, tuple):
        parts = kind
    elif isinstance(kind, types.Type | types.Field):
        parts = (getattr(kind, name) for name in _PARTS if hasattr(kind, name))
    return all(_can_be_made(part, seen) for part in parts)


def _converted(name: str, decoder: Decoder[Any], raw: msgspec.Raw) -> Any:
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        if bytes(raw) == _NIL:
            return None
        raise BadArgument(f"argument {name} does not fit its annotation: {error}") from None
