"""The check of a folder: what it sets out from, what it compares, and what it says."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.coordinator.checker import Checker
from holdfast.coordinator.checking import Check, check_folder
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.errands import do
from holdfast.coordinator.recovery import recover
from holdfast.coordinator.settings import STOP, Settings
from holdfast.coordinator.verify import verify_folder
from holdfast.core.freeze import fingerprint
from holdfast.core.tally import tally
from holdfast.testing.world import World
from holdfast.wal import FileLog, LogDamaged

SEGMENT_BYTES = 16 * 1024
EARLY, LATE = 40, 80

Snap = Callable[..., Path]


def drop(folder: Path, before: int) -> None:
    log = FileLog.open(folder, segment_bytes=SEGMENT_BYTES)
    log.drop_segments(before)
    log.close()


def test_a_good_folder_has_no_violations_with_and_without_snapshots(
    folder: Path, world: World, snap: Snap
) -> None:
    bare = check_folder(Check(str(folder)))
    assert (bare.position, bare.since, bare.violations) == (len(world.log), 0, ())
    for position in (EARLY, LATE):
        snap(position)
    covered = check_folder(Check(str(folder), len(world.log), tally(world.state)))
    assert (covered.position, covered.since, covered.violations) == (len(world.log), EARLY, ())
    earlier = check_folder(Check(str(folder), LATE + 5))
    assert (earlier.position, earlier.violations) == (LATE + 5, ())


def test_the_answer_travels_between_the_processes(folder: Path, world: World) -> None:
    told = msgspec.json.decode(do(msgspec.json.encode(Check(str(folder)))))
    assert told["position"] == len(world.log)
    assert told["violations"] == []


def test_a_snapshot_that_holds_another_state_is_named(
    folder: Path, world: World, snap: Snap
) -> None:
    snap(EARLY)
    path = snap(LATE, next_job=1_000)
    (violation,) = check_folder(Check(str(folder))).violations
    assert violation == f"L5 {path.name}: it does not hold the state it claims"


def test_memory_that_has_parted_from_the_log_is_named(folder: Path, world: World) -> None:
    told = {**tally(world.state), "jobs": 31}
    (violation,) = check_folder(Check(str(folder), len(world.log), told)).violations
    assert violation == "L4 memory: it counts 31 jobs and the log tells 30"


def test_history_that_cannot_be_is_named_by_the_watch(
    folder: Path, world: World, snap: Snap
) -> None:
    snap(EARLY, next_lease=500)
    found = check_folder(Check(str(folder))).violations
    assert found[0].startswith("S3 11: lease 11 was given before 500"), found
    assert found[-1] == "L4 replay: lease 11 was granted twice"
    assert verify_folder(folder).violations == ()


def test_001_58_an_unsound_snapshot_is_passed_over_where_the_log_covers(
    folder: Path, world: World, caplog: pytest.LogCaptureFixture, snap: Snap, unsound: Snap
) -> None:
    snap(EARLY)
    path = unsound(LATE)
    log = FileLog.open(folder)
    state = recover(log, folder)
    log.close()
    assert fingerprint(state) == world.fingerprint()
    (line,) = [each for each in caplog.records if getattr(each, "event", "") == "snapshot_rejected"]
    told = vars(line)
    assert (told["file"], "job 1 is there 2 times" in told["why"]) == (path.name, True)
    (flaw,) = verify_folder(folder).flaws
    assert (flaw.file, flaw.why) == (str(path), "job 1 is there 2 times")
    (violation,) = check_folder(Check(str(folder))).violations
    assert violation == f"L5 {path.name}: job 1 is there 2 times"


def test_001_61_nothing_is_opened_where_only_an_unsound_snapshot_covers(
    folder: Path, world: World, unsound: Snap
) -> None:
    unsound(LATE)
    drop(folder, LATE)
    log = FileLog.open(folder)
    assert log.oldest > 1
    with pytest.raises(LogDamaged, match=r"job 1 is there 2 times.*holdfast log verify"):
        recover(log, folder)
    log.close()
    assert check_folder(Check(str(folder))).violations[-1].startswith("L4 replay: no usable")


class Fixed:
    """A clock that stands still until told."""

    def __init__(self, at: int) -> None:
        self.at = at

    def now(self) -> Any:
        return self.at

    def wall(self) -> Any:
        return self.at

    def roll(self) -> float:
        return 0.5


def a_checker(folder: Path, world: World, **chosen: Any) -> tuple[Checker, Coordinator, Fixed]:
    clock = Fixed(world.now)
    coordinator = Coordinator(world.state, clock, clock)
    checker = Checker(
        folder, coordinator, Settings(check_ms=60_000, **chosen), lambda do: do(), settle_ms=5_000
    )
    return checker, coordinator, clock


def a_second_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\ncat > /dev/null\n{does}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


def settle(checker: Checker) -> None:
    assert checker._thread is not None
    checker._thread.join(60)


@pytest.mark.slow
def test_001_68_a_second_process_checks_everything(folder: Path, world: World) -> None:
    checker, _, _ = a_checker(folder, world)
    health = checker.make(checker.question())
    assert (health.position, health.since, health.line()) == (len(world.log), 0, "ok")
    assert health is checker.last


def test_001_68_everything_is_checked_after_recovery_and_then_again_and_again(
    tmp_path: Path, folder: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = '{"position":121,"since":0,"seconds":1.5,"violations":[]}'
    a_second_process(tmp_path, monkeypatch, f"echo '{found}'")
    checker, _, clock = a_checker(folder, world)
    checker.step(clock.now())
    assert checker._thread is None
    assert checker.next_due() == world.now + 5_000
    clock.at += 5_000
    checker.step(clock.now())
    settle(checker)
    assert checker.last is not None
    assert (checker.last.position, checker.last.line()) == (len(world.log), "ok")
    assert checker.next_due() == clock.now() + 60_000
    first, clock.at = checker._thread, clock.at + 60_000
    checker.step(clock.now())
    settle(checker)
    assert (checker._thread is first, checker.made) == (False, 2)


def test_001_41_a_check_that_cannot_run_is_itself_a_violation(
    tmp_path: Path,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    a_second_process(tmp_path, monkeypatch, "echo 'there is no log here' >&2; exit 1")
    checker, _, _ = a_checker(tmp_path / "nothing", world)
    checker.make(checker.question())
    (violation,) = checker.violations
    assert violation.startswith("check could not run: there is no log")
    assert [each.getMessage() for each in caplog.records] == ["what must hold does not"]


def test_serving_goes_on_after_a_violation_unless_the_operator_wants_it_to_stop(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_second_process(tmp_path, monkeypatch, "exit 3")
    checker, coordinator, _ = a_checker(tmp_path / "nothing", world)
    checker.make(checker.question())
    assert coordinator.failure is None
    checker, coordinator, _ = a_checker(tmp_path / "nothing", world, on_violation=STOP)
    checker.make(checker.question())
    assert "a check found: check could not run" in str(coordinator.failure)


def test_no_check_is_made_where_none_is_wanted_and_none_outlives_the_folder(
    folder: Path, world: World
) -> None:
    checker, _, clock = a_checker(folder, world)
    checker.adjust(Settings(check_ms=0))
    clock.at += 10**9
    checker.step(clock.now())
    assert (checker._thread, checker.next_due()) == (None, 0)
    checker.finish()
    checker.make(checker.question())
    assert checker.last is None
