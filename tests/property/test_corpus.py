"""Logs that releases have recorded are read by this one, to the states that were recorded."""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.coordinator.decoding import NewerRecord
from holdfast.coordinator.embedding import open_embedded
from holdfast.coordinator.inspect import open_folder
from holdfast.coordinator.salvage import plan_salvage
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.verify import verify_folder
from holdfast.core.apply import apply
from holdfast.core.events import EVENT_TYPES
from holdfast.core.ids import Instant, Position
from holdfast.core.invariants import check
from holdfast.core.state import State
from holdfast.core.watch import Watch
from holdfast.testing.corpus import EXPECTED, hash_at
from holdfast.version import VERSION
from holdfast.wal import FileLog

CORPUS = Path(__file__).parents[1] / "corpus"
FOLDERS = sorted(path.parent for path in CORPUS.glob(f"*/{EXPECTED}"))


def expected(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / EXPECTED).read_text(encoding="utf-8"))
    return told


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_recorded_log_replays_to_the_recorded_hashes(folder: Path) -> None:
    told = expected(folder)
    for position, wanted in told["hashes"].items():
        assert hash_at(folder, int(position)) == wanted, f"at position {position}"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_recorded_log_is_good_and_breaks_no_invariant_on_the_way(folder: Path) -> None:
    found = verify_folder(folder)
    assert (found.flaws, found.violations) == ((), ())
    watch, state = Watch(), State()
    for told in open_folder(folder).folder.records():
        apply(state, told.record, Position(told.position))
        assert watch.feed(told.position, told.record) == ()
    assert check(state) == ()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_recorded_log_can_be_opened_and_goes_on(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(folder, data)
    embedded = open_embedded(data, Settings(history_bytes=None))
    embedded.engine.start()
    embedded.close(lambda: True)
    after = verify_folder(data)
    assert after.is_good
    assert after.last > expected(folder)["last"]


@pytest.mark.slow
def test_the_log_of_this_release_has_every_type_of_event() -> None:
    """Made by `python -m holdfast.testing.corpus make tests/corpus/VERSION`."""
    told = expected(CORPUS / VERSION)
    assert told["version"]
    missing = {kind.__name__ for kind in EVENT_TYPES} - told["events"].keys()
    assert not missing, "make it again: nothing of this release was given to anybody yet"


def appended(folder: Path, tmp_path: Path, version: str, *event: object) -> Path:
    """A copy of a log, taken over by a release of this version, with one event more."""
    data = tmp_path / "data"
    shutil.copytree(folder, data)
    log = FileLog.open(data)
    opened = ["LogOpened", log.log_id, log.epoch, version, "host", 1, 0]
    try:
        for told in (opened, [*event]):
            record = msgspec.msgpack.encode([10**15, "Command", "actor", "", "", [told]])
            log.append([record], at=10**15, wall=10**15)
            log.sync()
    finally:
        log.close()
    return data


@pytest.mark.parametrize(
    "event",
    [("TasksTeleported", "1", [3]), ("JobDue", "1", "a value that was added later")],
    ids=["a type that nobody knows", "a type that has grown"],
)
def test_a_record_of_a_later_release_is_refused_by_position_and_version(
    tmp_path: Path, event: tuple[object, ...]
) -> None:
    """The downgrade: nothing is read as if it had said less, and nothing is written."""
    data = appended(FOLDERS[-1], tmp_path, "9.2.0", *event)
    before = {path: path.read_bytes() for path in data.rglob("*.seg")}
    last = expected(FOLDERS[-1])["last"] + 2
    told = rf"record {last} \({event[0]}\) was written by holdfast 9\.2\.0.*'holdfast>=9\.2\.0'"
    with pytest.raises(NewerRecord, match=told):
        open_folder(data)
    with pytest.raises(NewerRecord, match=told):
        open_embedded(data, Settings())
    with pytest.raises(NewerRecord, match=told):
        plan_salvage(data, wall=Instant(1), actor="test")
    assert {path: path.read_bytes() for path in data.rglob("*.seg")} == before
    found = verify_folder(data)
    assert found.last == last - 1
    assert "holdfast>=9.2.0" in found.flaws[0].why
