"""What the outside world has seen, held against what the log says has been committed.

Nothing of Holdfast counts here but the log: a file is read as lines, a table as rows.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from holdfast.coordinator.inspect import look_into
from holdfast.core import events as e
from holdfast.core.ids import JobId, task_name
from holdfast.core.owed import BLOCK, EFFECT, FILE, Entry
from holdfast.testing.blows import Wanted
from holdfast.wire.sinks import (
    AnySink,
    FileSink,
    FunctionSink,
    HttpSink,
    PostgresSink,
)
from holdfast.worker.payloads import decode_result

EXACTLY: Final = ("ledger", "books")
"""Sinks that have each effect exactly once; the others have it at least once, under one key."""
FIRST_WAIT: Final = "20ms"
BOOKS: Final = "create table books (id text, n int, token bigint)"
BOOK: Final = (
    "insert into books (id, n, token) values (%(id)s, %(body.n)s, %(body.token)s)"
)


class Outside(Struct, frozen=True):
    """Where everything ends up. Without `books` (the address of a database) there is none."""

    folder: Path
    hook: str
    books: str = ""

    @property
    def outputs(self) -> Path:
        return self.folder / "outputs"

    @property
    def blocks(self) -> Path:
        return self.folder / "blocks"

    @property
    def called(self) -> Path:
        return self.folder / "called"

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger"

    @property
    def tolls(self) -> Path:
        return self.folder / "tolls"

    def sinks(self) -> dict[str, AnySink]:
        terms: dict[str, Any] = {"first_wait": FIRST_WAIT, "circuit": "", "tries": 1_000}
        sinks: dict[str, AnySink] = {
            "ledger": FileSink(path=str(self.ledger), **terms),
            "hook": HttpSink(url=self.hook, private=True, **terms),
            "call": FunctionSink(target="holdfast.testing.deeds:call", **terms),
        }
        if self.books:
            sinks["books"] = PostgresSink(dsn=self.books, statement=BOOK, **terms)
        return sinks

    def items(self, number: int, wanted: Wanted) -> list[dict[str, Any]]:
        """What the tasks of one order are given: every second file must be new."""
        return [
            {
                "n": 10 * number + n, "early": wanted.early, "fresh": n % 2 == 0,
                "sinks": list(self.sinks()), "outputs": str(self.outputs),
                "blocks": str(self.blocks),
            }
            for n in range(wanted.tasks)
        ]  # fmt: skip

    def is_clean(self) -> bool:
        """Whether nothing lies about that is neither a result nor on its way to be one."""
        return not [path for path in self.outputs.iterdir() if path.name.startswith(".")]


class Promised(Struct):
    """What the log says: each committed entry by its idempotency key, with the number of its task
    and the token of the attempt that committed."""

    entries: dict[str, tuple[Entry, int, int]]
    settled: set[str]
    parked: dict[str, str]
    committed: Counter[str]


def promised(data: Path) -> Promised:
    found = Promised({}, set(), {}, Counter())
    folder = look_into(data)
    places: dict[str, int] = {}

    def name(job_id: JobId, each: e.Settled | e.Parked) -> str:
        task = task_name(job_id, each.index)
        return f"{folder.log_id}:{task}:{places[task]}:{each.number}"

    for told in folder.records():
        for event in told.record.events:
            if isinstance(event, e.TaskCommitted):
                task = task_name(event.job_id, event.commit.index)
                places[task] = told.position
                found.committed[task] += 1
                token = decode_result(event.commit.result)
                for number, entry in enumerate(event.owed):
                    key = f"{folder.log_id}:{task}:{told.position}:{number}"
                    found.entries[key] = (entry, number, token)
            elif isinstance(event, e.EffectsDelivered | e.EffectsDiscarded):
                found.settled |= {name(event.job_id, each) for each in event.settled}
            elif isinstance(event, e.EffectsParked):
                found.parked |= {name(event.job_id, each): each.error for each in event.parked}
    return found


def judge(data: Path, outside: Outside) -> list[str]:
    """Everything that is not as it was promised."""
    found = promised(data)
    troubles = [f"{task} committed {n} times" for task, n in found.committed.items() if n > 1]
    if not found.committed:
        troubles.append("nothing was committed at all")
    for key, (entry, _, _) in found.entries.items():
        if key not in found.settled and not (entry.kind == BLOCK and key in found.parked):
            why = found.parked.get(key, "and not parked")
            troubles.append(f"{entry.kind} {key} for {entry.place} is not settled: {why}")
    for sink in outside.sinks():
        troubles += _judge_sink(sink, _seen(outside, sink), found)
    return troubles + _judge_files(outside, found) + _judge_blocks(outside, found)


def _seen(outside: Outside, sink: str) -> list[tuple[str, int]]:
    """What has come to a sink, in its order: ids, and the tokens of their bodies."""
    if sink == "books":
        import psycopg  # noqa: PLC0415 - only where there is a database

        with psycopg.connect(outside.books) as connection:
            return connection.execute("select id, token from books").fetchall()
    file = {"ledger": outside.ledger, "hook": outside.tolls, "call": outside.called}[sink]
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [(line["id"], line["body"]["token"]) for line in map(json.loads, lines)]


def _judge_sink(sink: str, seen: list[tuple[str, int]], found: Promised) -> list[str]:
    owed = {
        key: token
        for key, (entry, _, token) in found.entries.items()
        if entry.kind == EFFECT and entry.place == sink
    }
    times = Counter(key for key, _ in seen)
    troubles = [f"{sink} has {key}, which nobody promised" for key in times.keys() - owed.keys()]
    troubles += [f"{sink} never had {key}" for key in owed.keys() - times.keys()]
    troubles += [f"{sink} has {key} of another attempt" for key, token in seen
                 if key in owed and owed[key] != token]  # fmt: skip
    if sink in EXACTLY:
        troubles += [f"{sink} has {key} {n} times" for key, n in times.items() if n > 1]
    if sink != "books":
        troubles += _judge_order(sink, seen, found)
    return troubles


def _judge_order(sink: str, seen: list[tuple[str, int]], found: Promised) -> list[str]:
    """Under one key each came first in the order of the commits."""
    last: dict[str, int] = {}
    troubles = []
    for key in dict.fromkeys(key for key, _ in seen if key in found.entries):
        name = found.entries[key][0].key
        position = int(key.split(":")[2])
        if position < last.get(name, 0):
            troubles.append(f"{sink} had {key} after {last[name]}")
        last[name] = position
    return troubles


def _judge_files(outside: Outside, found: Promised) -> list[str]:
    owed = {
        Path(entry.key).name: str(token)
        for entry, _, token in found.entries.values()
        if entry.kind == FILE
    }
    there = {path.name: path.read_text(encoding="utf-8") for path in outside.outputs.iterdir()}
    troubles = [f"{name} lies about" for name in there.keys() - owed.keys()]
    troubles += [f"{name} is not there" for name in owed.keys() - there.keys()]
    return troubles + [
        f"{name} holds {there[name]!r}, and {token!r} was committed"
        for name, token in owed.items()
        if there.get(name, token) != token
    ]


def _judge_blocks(outside: Outside, found: Promised) -> list[str]:
    lines = outside.blocks.read_text().splitlines() if outside.blocks.exists() else []
    times = Counter(lines)
    troubles = [f"block {name} began {n} times" for name, n in times.items() if n > 1]
    owed = [key for key, (entry, _, _) in found.entries.items() if entry.kind == BLOCK]
    left = [key for key in owed if key in found.settled and key not in found.parked]
    if len(times) > len(owed):
        troubles.append(f"{len(times)} blocks began, and {len(owed)} were committed")
    if len(times) < len(left):
        troubles.append(f"{len(left)} blocks were left, and {len(times)} began")
    return troubles
