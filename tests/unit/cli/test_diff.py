"""`holdfast diff`: what is not as it was."""

import json
from pathlib import Path

import pytest

from holdfast.coordinator.differing import changes
from holdfast.coordinator.inspect import Moment, Walls, open_folder
from holdfast.core.ids import Instant
from holdfast.core.job import job_state, state_of
from holdfast.core.state import Token


def told(run, folder: Path, *moments: object) -> dict:
    options = [part for moment in moments for part in ("--at", moment)]
    done = run("diff", *options, "--data", folder, "-o", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_nothing_differs_from_itself(run, folder: Path) -> None:
    last = int(open_folder(folder).state.position)
    for position in (1, last // 2, last):
        assert told(run, folder, position, position)["changes"] == []


def test_every_pair_of_moments_is_told_as_the_two_states_say(folder: Path) -> None:
    last = int(open_folder(folder).state.position)
    readings = [open_folder(folder, Moment(position=n)) for n in range(1, last + 1, 3)]
    for before in readings:
        for after in readings:
            found = {each.name: each for each in changes(before, after) if each.table == "jobs"}
            for job_id in {**before.state.jobs, **after.state.jobs}:
                old, new = before.state.jobs.get(job_id), after.state.jobs.get(job_id)
                states = tuple(job_state(job).value if job else None for job in (old, new))
                change = found.get(job_id)
                assert (states[0] != states[1]) == (change is not None and "state" in change.fields)
                moved = sum(
                    state_of(old, index) is not state_of(new, index)
                    for index in range(min(old.count, new.count))
                ) if old and new else 0  # fmt: skip
                assert moved <= (sum(change.moves.values()) if change else 0)


def test_one_moment_is_compared_with_now(run, folder: Path) -> None:
    since = told(run, folder, 19)
    assert since["from"]["position"] == 19
    assert [each["name"] for each in since["changes"] if each["change"] == "added"] == ["2"]


def test_the_table_says_what_became_of_what(run, folder: Path) -> None:
    done = run("diff", "--at", 2, "--at", 19, "--data", folder)
    assert done.code == 0
    assert "jobs/1" in done.out
    assert "state PENDING -> RUNNING" in done.out
    assert "things differ between position 2" in done.err


@pytest.mark.parametrize("moments", [(), (1, 2, 3)])
def test_no_moment_and_three_of_them_are_told_what_to_type(run, folder: Path, moments) -> None:
    options = [part for moment in moments for part in ("--at", moment)]
    done = run("diff", *options, "--data", folder)
    assert (done.code, done.out) == (2, "")
    assert "holdfast diff --at 10m --at 412" in done.err


def test_what_stayed_does_not_differ_because_one_look_knows_the_clock_less_well(
    folder: Path,
) -> None:
    # A look that begins at a snapshot has not read what the wall clock showed before it.
    before, after = open_folder(folder), open_folder(folder)
    for reading in (before, after):
        reading.state.tokens["t"] = Token("t", "", b"", (), "", reading.state.time, Instant(0))
    after.walls = Walls()
    after.walls.note(0, 4)
    assert before.wall(before.state.time) != after.wall(after.state.time)
    assert list(changes(before, after)) == []
