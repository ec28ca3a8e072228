"""`holdfast log fork`, `salvage`, `resume`, `compact`, `archive` and `upgrade`, on real folders."""

import json
import shutil
from pathlib import Path
from random import Random

import pytest

from holdfast.coordinator.inspect import open_folder
from holdfast.coordinator.verify import verify_folder
from holdfast.core.freeze import fingerprint
from holdfast.testing.folders import Written, flip_bit, write_folder
from holdfast.testing.histories import a_history
from holdfast.testing.world import World

CORPUS = Path(__file__).parents[2] / "corpus"
SEGMENT_BYTES = 16 * 1024


@pytest.fixture
def long(tmp_path: Path) -> tuple[Path, World, list[Written]]:
    """A log of several segments."""
    world = a_history(220, Random(7))
    frames = write_folder(
        tmp_path / "data", world.log, segment_bytes=SEGMENT_BYTES, dice=Random(1)
    )
    return tmp_path / "data", world, frames


def segments(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "wal").glob("0*.seg"))


@pytest.mark.slow
def test_an_archived_log_is_small_and_its_past_can_be_put_back(run, long, tmp_path: Path) -> None:
    folder, _, _ = long
    before = segments(folder)
    assert len(before) > 2
    done = run("log", "archive", folder, "--to", tmp_path / "past", "-o", "json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["segments_gone"] == len(before) - len(segments(folder)) > 0
    assert verify_folder(folder).is_good
    assert sorted(path.name for path in (tmp_path / "past").iterdir()) == before[:-1]
    refused = run("job", "list", "--data", folder, "--at", 5)
    assert refused.code != 0
    for path in (tmp_path / "past").iterdir():
        shutil.copy(path, folder / "wal" / path.name)
    assert fingerprint(open_folder(folder).state)
    assert run("job", "list", "--data", folder, "--at", 5).code == 0
    assert verify_folder(folder).oldest == 1


@pytest.mark.slow
def test_a_compacted_log_keeps_what_it_was_told_to_keep(run, long) -> None:
    folder, _, _ = long
    kept = segments(folder)
    done = run("log", "compact", folder, "--keep", "1Gi", "-o", "json")
    assert (done.code, json.loads(done.out)["segments_gone"]) == (0, 0)
    assert set(kept) <= set(segments(folder))
    done = run("log", "compact", folder, "-o", "json")
    assert json.loads(done.out)["segments_gone"] > 0
    assert verify_folder(folder).is_good


@pytest.mark.slow
def test_a_log_of_a_former_build_says_so_and_is_spared_the_next_time(run, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(CORPUS / "0.1.0-spine", folder)
    done = run("log", "upgrade", folder, "--dry-run", "-o", "json")
    told = json.loads(done.out)
    assert (told["records_former"], told["needs_snapshot"]) == (1, True)
    assert "TasksKilled" in told["former"]
    assert not (folder / "snapshots").exists()
    assert run("log", "upgrade", folder).code == 0
    assert json.loads(run("log", "upgrade", folder, "-o", "json").out)["needs_snapshot"] is False


def test_a_damaged_log_is_salvaged_when_somebody_says_so_and_says_what_is_lost(
    run, long, tmp_path: Path
) -> None:
    folder, _, frames = long
    hit = frames[len(frames) // 2]
    flip_bit(hit.path, hit.offset + 80)
    verified = run("log", "verify", folder)
    assert verified.code == 1
    assert f"{hit.path}, byte {hit.offset}" in verified.err
    assert f"record {hit.first} is the first that cannot be followed" in verified.err
    assert "holdfast log salvage" in verified.err
    looked = run("log", "salvage", folder, "--dry-run", "-o", "json")
    told = json.loads(looked.out)
    assert (told["good_until"], told["lost_from"]) == (hit.first - 1, hit.first)
    assert told["hole"]["last"] == hit.last
    assert told["new_log_id"] is None
    assert run("log", "salvage", folder).code == 2
    done = run("log", "salvage", folder, "--to", tmp_path / "new", "-o", "json")
    assert done.code == 0, done.err
    report = json.loads((tmp_path / "new" / "salvage-report.json").read_bytes())
    assert report["quarantined_count"] == json.loads(done.out)["quarantined_count"]
    assert verify_folder(tmp_path / "new").is_good
    whole = run("log", "salvage", tmp_path / "new", "--dry-run")
    assert (whole.code, "nothing to salvage" in whole.err) == (1, True)


def test_a_fork_is_resumed_by_its_folder_once(run, long, tmp_path: Path) -> None:
    folder, _, _ = long
    done = run("log", "fork", folder, "--at", 100, "--to", tmp_path / "new", "--reason", "to look")
    assert done.code == 0, done.err
    assert "holdfast log resume" in done.err
    again = run("log", "fork", folder, "--to", tmp_path / "new")
    assert (again.code, "exists already" in again.err) == (1, True)
    assert "works again" in run("log", "resume", tmp_path / "new").err
    assert "nothing was to be done" in run("log", "resume", tmp_path / "new").err
    stats = json.loads(run("log", "stats", tmp_path / "new", "-o", "json").out)
    assert (stats["suspended"], stats["lineage"][-1]["until"]) == (None, 100)
