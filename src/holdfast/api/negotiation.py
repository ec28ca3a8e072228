"""JSON for people, msgpack for programs: which one a request is in and which one it wants."""

from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.api.problems import Declined
from holdfast.core.unreadable import UNREADABLE
from holdfast.wire.twins import twin_of

JSON: Final = "application/json"
MSGPACK: Final = "application/msgpack"
PROBLEM: Final = "application/problem+json"

_to_msgpack = msgspec.msgpack.Encoder().encode
_to_json = msgspec.json.Encoder().encode


def read_body(kind: type[Struct], content: bytes, content_type: str) -> Any:
    """What a body says; nothing at all stands for one without fields."""
    media = content_type.partition(";")[0].strip().lower()
    try:
        if not content:
            return msgspec.convert({}, kind)
        if media == MSGPACK:
            return _from_msgpack(kind).decode(content)
        if media in ("", JSON):
            return _read_json(kind, content)
    except msgspec.ValidationError as error:
        raise Declined("invalid", f"the body is not as it should be: {error}") from error
    except UNREADABLE as error:
        raise Declined("malformed", f"the body cannot be read: {error}") from error
    raise Declined(
        "unsupported_media_type",
        f"{media[:60]!r} is not understood; send `Content-Type: {JSON}`, or {MSGPACK}",
    )


def wants_msgpack(accept: str) -> bool:
    return MSGPACK in accept


def written(value: Any, *, msgpack: bool) -> tuple[bytes, str]:
    """The bytes of an answer and their type."""
    if msgpack:
        return _to_msgpack(value), MSGPACK
    kind = type(value)
    if _is_array(kind):
        value = msgspec.convert(value, twin_of(kind), from_attributes=True)
    return _to_json(value), JSON


@cache
def _from_msgpack(kind: type[Struct]) -> "msgspec.msgpack.Decoder[Any]":
    return msgspec.msgpack.Decoder(kind)


@cache
def _from_json(kind: type[Struct]) -> "msgspec.json.Decoder[Any]":
    # What travels as an array between programs has named fields for people.
    return msgspec.json.Decoder(twin_of(kind) if _is_array(kind) else kind)


def _read_json(kind: type[Struct], content: bytes) -> Any:
    told = _from_json(kind).decode(content)
    return msgspec.convert(told, kind, from_attributes=True) if _is_array(kind) else told


def _is_array(kind: type) -> bool:
    return issubclass(kind, Struct) and kind.__struct_config__.array_like
