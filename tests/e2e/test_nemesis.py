"""Processes that are killed, frozen and cut off: nothing is lost and nothing commits twice.

What is checked is what clients were told and what the log says; a body that ran twice is matched
by an attempt that ended without a commit.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast
from holdfast.coordinator.inspect import open_folder
from holdfast.core import events as e
from holdfast.core.invariants import check
from holdfast.core.watch import Watch
from holdfast.testing import chores
from holdfast.testing.fleet import Fleet, Nemesis

TERM_S = 1.0
TASKS = 5_000
MORE = 500
REFUSALS = 50
"""How many results of workers that were stopped past their leases must have been refused."""


def commits_of(
    folder: Path, firsts: dict[str, int]
) -> tuple[Counter[int], Counter[int], list[str]]:
    """How often each task committed and how many attempts of it ended otherwise, by the log. A
    task is known by its number: the first one of its job, and so many after it."""
    commits: Counter[int] = Counter()
    aborted: Counter[int] = Counter()
    reading, watch = open_folder(folder), Watch()
    troubles = [str(violation) for violation in check(reading.state)]
    for told in reading.folder.records():
        troubles += map(str, watch.feed(told.position, told.record))
        for event in told.record.events:
            if isinstance(event, e.TasksCompleted):
                first = firsts[event.job_id]
                commits.update(first + commit.index for commit in event.commits)
            elif isinstance(event, e.AttemptsReturned | e.TasksQuarantined):
                aborted.update(firsts[event.job_id] + end.index for end in event.ends)
    return commits, aborted, troubles


def run(seed: int, tmp_path: Path, record: Callable[[str, object], None]) -> None:
    """All tasks under a nemesis; and more of them where it has not stopped enough workers yet."""
    ran = tmp_path / "ran"
    ran.mkdir()
    results: list[int] = []
    firsts: dict[str, int] = {}
    with Fleet(tmp_path, workers=4, term=f"{TERM_S:g}s") as fleet:
        with (
            holdfast.connect(
                fleet.url, token_file=fleet.server.token_file, patience="2m"
            ) as hf,
            Nemesis(fleet, seed, term_s=TERM_S) as nemesis,
        ):
            while len(results) < TASKS or fleet.refused() < REFUSALS:
                first = len(results)
                numbers = range(first, first + (MORE if first else TASKS))
                job = hf.map(chores.leave_a_mark, [(str(ran), n) for n in numbers])
                firsts[job.id] = first
                results += job.results()
        refused = fleet.refused()
    count = len(results)
    assert results == [n * n for n in range(count)]
    commits, aborted, troubles = commits_of(fleet.server.data, firsts)
    assert troubles == []
    assert commits == Counter(range(count))
    bodies = Counter(
        int(line) for path in ran.iterdir() for line in path.read_text().split()
    )
    assert set(bodies) == set(range(count))
    # A body that ran again is matched by an attempt that ended without a commit.
    unmatched = {n: runs for n, runs in bodies.items() if runs > 1 + aborted[n]}
    assert unmatched == {}
    told = {"tasks": count, "evils": dict(nemesis.done), "aborted": sum(aborted.values())}
    told |= {"ran again": sum(bodies.values()) - count, "refused": refused}
    record(f"nemesis {seed}", told)


@pytest.mark.slow
def test_a_nemesis_loses_nothing_and_commits_nothing_twice(
    tmp_path: Path, record_testsuite_property: Callable[[str, object], None]
) -> None:
    run(1, tmp_path, record_testsuite_property)


@pytest.mark.soak
def test_a_nemesis_with_another_seed_each_time(
    seed: int, tmp_path: Path, record_testsuite_property: Callable[[str, object], None]
) -> None:
    run(seed, tmp_path, record_testsuite_property)
