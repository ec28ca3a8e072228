"""A recorded shape never changes: add a type, or a last field with a default; never edit one."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.core.errors import BrokenInvariant
from holdfast.core.ids import Index, Instant, JobId, LeaseId, Position, WorkerId
from holdfast.core.lineage import Hole
from holdfast.core.owed import Entry, Stored
from holdfast.core.placing import After, Constraint, Placing
from holdfast.core.record import Record, decode_record, encode_record
from holdfast.core.schedule import Definition, Timing
from holdfast.core.spec import (
    CircuitPolicy,
    JobSpec,
    RetryBudget,
    RetryPolicy,
    ServicePolicy,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "events.json"
PARTS: tuple[type[msgspec.Struct], ...] = (
    Record, JobSpec, RetryPolicy, Placing, Constraint, After, Definition, Timing,
    e.Span, e.Start, e.Commit, e.End, e.Stopped, e.Settled, e.Parked, Entry, Stored, RetryBudget,
    CircuitPolicy, Hole, ServicePolicy,
)  # fmt: skip
SAMPLES: dict[type, Any] = {
    JobSpec: JobSpec(name="n", kind="k", target="t"),
    After: After(JobId("j"), 3, "failure"),
    Definition: Definition(
        timing=Timing(cron="0 3 * * *", zone="Europe/Berlin"),
        spec=JobSpec(name="n", kind="k", target="t"), items=(b"item",),
    ),
    e.Commit: e.Commit(
        Index(3), LeaseId(7), 2, Position(9), Instant(11), Position(5), 1, 0, b"result"
    ),
    e.End: e.End(
        Index(3), LeaseId(7), 2, "failed", WorkerId("w"), Position(9), Instant(11), Position(5),
        "failures", 1, 0, 0, Instant(13), "boom", "trace", 1,
    ),
    e.Stopped: e.Stopped(Index(3), Position(5)),
    e.Start: e.Start(Index(3), LeaseId(7), Instant(11)),
    e.Span: e.Span(Index(0), Index(9)),
    Entry: Entry("effect", "mail", "ann", b"dear"),
    e.Settled: e.Settled(Index(3), 1),
    e.Parked: e.Parked(Index(3), 1, 20, "no answer"),
    Hole: Hole("wal/1.seg", 4096, 7, 9, "the frame's checksum does not match"),
}  # fmt: skip


ITEMS: dict[type, Any] = {
    msgspec.inspect.BytesType: b"item",
    msgspec.inspect.IntType: 4,
    msgspec.inspect.StrType: "text",
}


def pair(kind: msgspec.inspect.TupleType) -> tuple[Any, ...]:
    """A name with what it stands for: a text or a number."""
    name, value = map(type, kind.item_types)
    assert name is msgspec.inspect.StrType
    return ("name", "value" if value is msgspec.inspect.StrType else ITEMS[value])


def sample(kind: Any) -> Any:
    """A value of this type, the same every time."""
    if kind in SAMPLES:
        return SAMPLES[kind]
    info = msgspec.inspect.type_info(kind)
    if isinstance(info, msgspec.inspect.VarTupleType):
        inner = info.item_type
        name = getattr(inner, "cls", None)
        if name is not None:
            return (sample(name),)
        if isinstance(inner, msgspec.inspect.TupleType):
            return (pair(inner),)
        return (ITEMS[type(inner)],)
    plain = {
        msgspec.inspect.IntType: 4,
        msgspec.inspect.StrType: "text",
        msgspec.inspect.BytesType: b"bytes",
        msgspec.inspect.BoolType: True,
    }
    return plain[type(info)]


def sample_event(kind: type[e.Event]) -> e.Event:
    fields = msgspec.structs.fields(kind)
    values = {}
    for field in fields:
        values[field.name] = sample(field.type)
    return kind(**values)


def shape_of(kind: type[msgspec.Struct]) -> list[str]:
    return [f"{field.name}: {spelled(field)}" for field in msgspec.structs.fields(kind)]


def spelled(field: msgspec.structs.FieldInfo) -> str:
    """The type as one writes it; the union of all events has a list of its own."""
    if field.name == "events":
        return "tuple of events"
    text = getattr(field.type, "__name__", "") if not get_args(field.type) else ""
    return re.sub(r"\bholdfast\.[a-z.]*", "", text or str(field.type))


def written(event: e.Event) -> str:
    record = Record(Instant(1), "Sample", "actor", "request", "reason", (event,))
    return encode_record(record).hex()


def shapes() -> dict[str, Any]:
    return {
        "parts": {part.__name__: shape_of(part) for part in PARTS},
        "events": {
            kind.__name__: {"fields": shape_of(kind), "bytes": written(sample_event(kind))}
            for kind in e.EVENT_TYPES
        },
    }


def test_no_recorded_shape_has_changed(blessing: bool) -> None:
    if blessing:
        GOLDEN.write_text(json.dumps(shapes(), indent=1) + "\n", encoding="utf-8")
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert shapes() == golden


@pytest.mark.parametrize("name", [kind.__name__ for kind in e.EVENT_TYPES])
def test_bytes_written_long_ago_are_read_as_the_same_event(name: str) -> None:
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))["events"][name]
    record = decode_record(bytes.fromhex(golden["bytes"]))
    (event,) = record.events
    assert type(event).__name__ == name
    assert event == sample_event(type(event))


@pytest.mark.parametrize("kind", [e.JobSubmitted, e.LeasesGranted, e.LimitSet])
def test_an_event_from_before_it_grew_is_read_with_what_was_meant_then(
    kind: type[e.Event],
) -> None:
    """A field that was added later is missing in older logs: its default is what held then."""
    later = [field for field in msgspec.structs.fields(kind) if not field.required]
    before = msgspec.structs.replace(
        sample_event(kind), **{field.name: field.default for field in later}
    )
    *envelope, (values,) = msgspec.msgpack.decode(bytes.fromhex(written(before)))
    shorter = msgspec.msgpack.encode([*envelope, [values[: -len(later)]]])
    assert later
    assert decode_record(shorter).events == (before,)


def test_an_event_of_a_type_nobody_knows_is_refused_not_skipped() -> None:
    data = msgspec.msgpack.encode([1, "C", "a", "", "", [["TaskTeleported", "j", 0]]])
    with pytest.raises(BrokenInvariant):
        decode_record(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode([1, "C", "a", "", ""]),
        msgspec.msgpack.encode([1, "C", "a", "", "", [["JobDue"]]]),
        msgspec.msgpack.encode([1, "C", "a", "", "", [["JobDue", 7]]]),
        msgspec.msgpack.encode({"at": 1}),
    ],
)
def test_a_malformed_record_is_a_broken_invariant(data: bytes) -> None:
    with pytest.raises(BrokenInvariant):
        decode_record(data)
