"""Logs that releases have written, kept for ever: every later one must read them to the same state.

    python -m holdfast.testing.corpus make tests/corpus/VERSION     a log with every type of event
    python -m holdfast.testing.corpus take SOURCE TARGET            a log that somebody has recorded

Beside the log, `expected.json` says what it tells: the hash of the state after some positions, by
whom it was written and which events are in it. A corpus is made once, when a release is made, and
is not made again: if it cannot be read any more, the reader is wrong.
"""

import json
import sys
from collections import Counter
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

from holdfast.coordinator.decoding import writer_of
from holdfast.coordinator.inspect import Moment, look_into, open_folder
from holdfast.core.events import EVENT_TYPES
from holdfast.core.freeze import fingerprint, freeze
from holdfast.core.record import decode_record
from holdfast.testing.folders import append
from holdfast.testing.strategies import any_command, pass_time
from holdfast.testing.world import World
from holdfast.wal import FileLog, RealDisk, write_snapshot

EXPECTED: Final = "expected.json"
POSITIONS: Final = 8
"""After so many positions the hash of the state is recorded."""
PAGE_BYTES: Final = 4096
MOST_RECORDS: Final = 1_600
"""A history that needs more is not taken: another seed has one that does not."""


def make(target: Path) -> dict[str, Any]:
    """A log with every type of event that this release writes, and a snapshot in its middle."""
    found = ((seed, every_event(seed)) for seed in count())
    seed, world = next((seed, world) for seed, world in found if world is not None)
    log = FileLog.open(target, new_id=bytes(range(16)))
    dice, start, halfway = Random(seed), 0, len(world.log) // 2
    try:
        while start < len(world.log):
            many = dice.randrange(1, 6)
            batch = world.log[start : start + many]
            append(log, batch)
            if start <= halfway < start + many:
                state = world.replayed(log.last)
                told = fingerprint(state).encode()
                write_snapshot(
                    RealDisk(), target, log.last, log.head, log.log_id, [freeze(state)], told
                )
            start += many
    finally:
        log.close()
    return _settle(target)


def every_event(seed: int) -> World | None:
    """A history that goes on until every type of event has come about; None for a long one."""
    dice, world = Random(seed), World()
    missing, known = set(EVENT_TYPES), 0
    while missing and len(world.log) < MOST_RECORDS:
        pass_time(world, dice)
        world.do(any_command(world, dice))
        for record in world.log[known:]:
            missing -= {type(event) for event in decode_record(record).events}
        known = len(world.log)
    return None if missing else world


def take(source: Path, target: Path) -> dict[str, Any]:
    """A copy of a recorded log, as it is."""
    for path in (*(source / "wal").glob("*.seg"), source / "wal" / "acked",
                 *(source / "snapshots").glob("*")):  # fmt: skip
        if path.name != "next.seg":
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    return _settle(target)


def _settle(target: Path) -> dict[str, Any]:
    """Leave out what is empty, and write down what the log tells."""
    for path in (target / "wal").glob("*.seg"):
        if path.name == "next.seg":
            path.unlink()
        else:
            content = path.read_bytes().rstrip(b"\0")
            path.write_bytes(content + bytes(-len(content) % PAGE_BYTES))
    (target / "holdfast.lock").unlink(missing_ok=True)
    told = expected_of(target)
    text = json.dumps(told, indent=1, sort_keys=True) + "\n"
    (target / EXPECTED).write_text(text, encoding="utf-8")
    return told


def expected_of(folder: Path) -> dict[str, Any]:
    """What a log tells this release."""
    source = look_into(folder)
    events: Counter[str] = Counter()
    for told in source.records():
        events.update(type(event).__name__ for event in told.record.events)
    step = max(1, (source.last - source.oldest + 1) // POSITIONS)
    positions = sorted({*range(source.oldest + step - 1, source.last, step), source.last})
    return {
        "version": writer_of(source.reader, source.last),
        "log_id": source.log_id,
        "last": int(source.last),
        "hashes": {str(p): hash_at(folder, p) for p in positions},
        "events": dict(sorted(events.items())),
    }


def hash_at(folder: Path, position: int) -> str:
    return fingerprint(open_folder(folder, Moment(position=position)).state)


def main(arguments: list[str]) -> int:
    verb, *paths = arguments or [""]
    if verb == "make" and len(paths) == 1:
        told = make(Path(paths[0]))
    elif verb == "take" and len(paths) == 2:
        told = take(Path(paths[0]), Path(paths[1]))
    else:
        sys.stderr.write(__doc__ or "")
        return 2
    sys.stdout.write(f"{told['last']} records, {len(told['events'])} types of events\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
