"""The audit trail as a file that can be given away and checked without the log.

The first line says of which log and which positions it is, and how the log's chain stood before
them; the last says how many lines there are, and how the chain stood after. Every line ends in a
link over the one before it and its own bytes, so that a line that was changed, left out, put in,
repeated or moved breaks the links from there on, and a file that was cut short has no last line.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.coordinator.audit import entries_of
from holdfast.coordinator.inspect import Told
from holdfast.coordinator.recovery import Readable
from holdfast.coordinator.views import View
from holdfast.core.unreadable import UNREADABLE

FORMAT: Final = 1
PERSON: Final = b"holdfast audit"
HEADER, ENTRY, TRAILER = "header", "entry", "trailer"

_encoder = msgspec.json.Encoder(order="deterministic")


class Span(Struct, frozen=True, kw_only=True):
    """What a file is about: positions `first` to `last` of a log, and how its chain stood before
    and after them, empty where no frame ends there."""

    log_id: str
    first: int
    last: int
    before: str
    head: str


def span_of(log: Readable, first: int, last: int) -> Span:
    """These positions of a log, with its chain around them."""
    before, after = log.chain_after(first - 1), log.chain_after(last)
    return Span(
        log_id=log.log_id,
        first=first,
        last=last,
        before=(before or b"").hex(),
        head=(after or b"").hex(),
    )


class Torn(Exception):
    """A file that is not as it was written. `line` is the first that is wrong, from 1;
    `position` the one of the log that it is or should be about, None where nobody can say."""

    def __init__(self, line: int, position: int | None, why: str) -> None:
        self.line = line
        self.position = position
        self.why = why
        about = "" if position is None else f", position {position}"
        super().__init__(f"line {line}{about}: {why}")


def _link(previous: bytes, content: bytes) -> bytes:
    return blake2b(previous + content, digest_size=16, person=PERSON).digest()


def _line(previous: bytes, view: View) -> tuple[bytes, bytes]:
    """One line, its link last, and that link."""
    content = _encoder.encode(view)
    link = _link(previous, content)
    return content[:-1] + b',"link":"' + link.hex().encode() + b'"}\n', link


def exported(span: Span, records: Iterable[Told]) -> Iterator[bytes]:
    """The file, line by line."""
    header = {
        "kind": HEADER,
        "format": FORMAT,
        "log_id": span.log_id,
        "first": span.first,
        "last": span.last,
        "before": span.before,
    }
    line, link = _line(b"", header)
    yield line
    entries = told_records = 0
    for told in records:
        told_records += 1
        for entry in entries_of(told):
            entries += 1
            line, link = _line(link, {"kind": ENTRY, **entry})
            yield line
    trailer = {
        "kind": TRAILER,
        "entries": entries,
        "records": told_records,
        "last": span.last,
        "head": span.head,
    }
    yield _line(link, trailer)[0]


class Checked(Struct, frozen=True, kw_only=True):
    """A file that is whole. `link` is that of its last line: who kept it knows that a file is this
    one."""

    span: Span
    entries: int
    records: int
    link: str


def check_file(lines: Iterable[bytes]) -> Checked:
    """What a file is about; `Torn` names the first line that is not as it was written."""
    link, number, position = b"", 0, None
    header: dict[str, Any] | None = None
    trailer: dict[str, Any] | None = None
    entries, positions = 0, 0
    for number, raw in enumerate(lines, 1):
        if trailer is not None:
            raise Torn(number, None, "something follows the last line")
        view, link = _checked(raw, link, number, position)
        kind = view.get("kind")
        if header is None:
            if kind != HEADER or view.get("format") != FORMAT:
                raise Torn(number, None, "it is not the first line of an audit export")
            header = view
        elif kind == ENTRY:
            entries += 1
            positions += view["position"] != position
            position = view["position"]
        elif kind == TRAILER:
            trailer = view
        else:
            raise Torn(number, position, f"a line of kind {kind!r} does not belong here")
    if header is None:
        raise Torn(1, None, "the file is empty")
    if trailer is None:
        raise Torn(number + 1, position, "the file was cut short: its last line is missing")
    if (trailer["entries"], trailer["records"]) != (entries, positions):
        raise Torn(number, position, "it counts other lines than there are")
    span = Span(
        log_id=header["log_id"], first=header["first"], last=header["last"],
        before=header["before"], head=trailer["head"],
    )  # fmt: skip
    return Checked(span=span, entries=entries, records=positions, link=link.hex())


def _checked(
    raw: bytes, previous: bytes, number: int, position: int | None
) -> tuple[dict[str, Any], bytes]:
    """One line, read and compared byte by byte with what would have been written."""
    try:
        view = msgspec.json.decode(raw, type=dict[str, Any])
    except UNREADABLE:
        why = "it was cut short" if not raw.endswith(b"\n") else "it cannot be read"
        raise Torn(number, position, why) from None
    told = view.pop("link", None)
    here = view.get("position") if isinstance(view.get("position"), int) else position
    again, link = _line(previous, view)
    if told != link.hex():
        raise Torn(number, here, "its link does not follow from the line before it and its words")
    if raw != again:
        raise Torn(number, here, "it is not written as it was")
    return view, link


def compare(lines: Iterable[bytes], written: Iterable[bytes]) -> None:
    """`Torn` at the first line that is not what the log tells."""
    ours = iter(written)
    number = 0
    for number, line in enumerate(lines, 1):
        told = next(ours, None)
        if told != line:
            why = "the log ends before it" if told is None else "the log tells something else"
            raise Torn(number, _position(line), why)
    if next(ours, None) is not None:
        raise Torn(number + 1, None, "the log tells more than the file")


def _position(line: bytes) -> int | None:
    found = msgspec.json.decode(line, type=dict[str, Any]).get("position")
    return found if isinstance(found, int) else None
