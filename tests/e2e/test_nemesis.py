"""Processes that are killed, frozen and cut off: nothing is lost and nothing commits twice.

What is checked is what clients were told and what the log says; a body that ran twice is matched
by an attempt that ended without a commit.
"""

import os
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
PATIENCE_S = 240.0


def commits_of(folder: Path) -> tuple[Counter[int], Counter[int], list[str]]:
    """How often each task committed and how many attempts of it ended otherwise, by the log."""
    commits: Counter[int] = Counter()
    aborted: Counter[int] = Counter()
    reading, watch = open_folder(folder), Watch()
    troubles = [str(violation) for violation in check(reading.state)]
    for told in reading.folder.records():
        troubles += map(str, watch.feed(told.position, told.record))
        for event in told.record.events:
            if isinstance(event, e.TasksCompleted):
                commits.update(commit.index for commit in event.commits)
            elif isinstance(event, e.AttemptsReturned | e.TasksQuarantined):
                aborted.update(end.index for end in event.ends)
    return commits, aborted, troubles


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_nemesis_loses_nothing_and_commits_nothing_twice(
    seed: int, tmp_path: Path, record_testsuite_property: Callable[[str, object], None]
) -> None:
    count = int(os.environ.get("HOLDFAST_NEMESIS_TASKS", "2500"))
    ran = tmp_path / "ran"
    ran.mkdir()
    with Fleet(tmp_path, workers=4, term=f"{TERM_S:g}s") as fleet:
        with holdfast.connect(
            fleet.url, token_file=fleet.server.token_file, patience="2m"
        ) as hf:
            job = hf.map(chores.leave_a_mark, [(str(ran), n) for n in range(count)])
            with Nemesis(fleet, seed, term_s=TERM_S) as nemesis:
                results = list(job.results())
        evils = nemesis.done
    assert results == [n * n for n in range(count)]
    commits, aborted, troubles = commits_of(fleet.server.data)
    assert troubles == []
    assert commits == Counter(range(count))
    bodies = Counter(
        int(line) for path in ran.iterdir() for line in path.read_text().split()
    )
    assert set(bodies) == set(range(count))
    twice = {n: runs for n, runs in bodies.items() if runs > 1 + aborted[n]}
    assert twice == {}
    record_testsuite_property(f"evils of seed {seed}", dict(evils))
    record_testsuite_property(f"aborted under seed {seed}", sum(aborted.values()))
