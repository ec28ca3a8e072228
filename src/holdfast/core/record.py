"""One record: one accepted command, with the events it caused. The unit of the log."""

import msgspec
from msgspec import Struct

from holdfast.core.errors import BrokenInvariant
from holdfast.core.events import AnyEvent
from holdfast.core.ids import Instant
from holdfast.core.unreadable import UNREADABLE
from holdfast.core.upcast import upcast


class UnreadableRecord(BrokenInvariant):
    """A record in a shape that neither this release nor a former one wrote."""


class Record(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What was asked, by whom, and what became true. `at` is log time."""

    at: Instant
    command: str
    actor: str
    request_id: str
    reason: str
    events: tuple[AnyEvent, ...]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Record)

encode_record = _encoder.encode


def is_current(data: bytes) -> bool:
    """Whether a record is in the shapes that this release writes."""
    try:
        _decoder.decode(data)
    except msgspec.DecodeError:
        return False
    return True


def decode_record(data: bytes) -> Record:
    """The record, or the refusal to guess what an unknown or malformed one meant. One that a
    former release wrote is told as this one tells it."""
    try:
        return _decoder.decode(data)
    except UNREADABLE as error:
        former = upcast(data)
        if former is None:
            raise UnreadableRecord(f"a record cannot be read: {error}") from error
    try:
        return _decoder.decode(former)
    except UNREADABLE as error:
        raise UnreadableRecord(f"a record cannot be read: {error}") from error
