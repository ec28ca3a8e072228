"""What a log says about the tasks of its one job: which committed, how often, and what died."""

from collections import Counter

from msgspec import Struct

from holdfast.coordinator.inspect import Folder
from holdfast.core import events as e
from holdfast.core.attempt import DEATHS


class Commits(Struct, frozen=True):
    """`cut_short` are the tasks of which an attempt ended in a death."""

    lost: int
    twice: int
    cut_short: tuple[int, ...]

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.twice)


def count_commits(folder: Folder, tasks: int) -> Commits:
    commits: Counter[int] = Counter()
    deaths: dict[int, None] = {}
    for told in folder.records():
        for event in told.record.events:
            if isinstance(event, e.TasksCompleted):
                commits.update(commit.index for commit in event.commits)
            elif isinstance(event, e.AttemptsReturned):
                deaths.update((end.index, None) for end in event.ends if end.reason in DEATHS)
    return Commits(
        lost=sum(commits[index] == 0 for index in range(tasks)),
        twice=sum(count > 1 for count in commits.values()),
        cut_short=tuple(deaths),
    )
