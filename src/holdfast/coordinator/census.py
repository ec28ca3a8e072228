"""All waiting tasks counted by the most telling reason of each: what a whole server waits for."""

from collections import Counter
from typing import Final

from holdfast.coordinator.surroundings import Surroundings
from holdfast.coordinator.views import View
from holdfast.core.ids import Instant
from holdfast.core.job import Job, is_finished
from holdfast.scheduler.codes import CODES

PORTION_TASKS: Final = 20_000
"""How many tasks with a past are looked at before others have their turn."""


class Census:
    """Counts one job after another. Between them time may pass and jobs may move: each is counted
    as it was found, in the surroundings of when the count began. `ready_since` is when the
    oldest job that could be given out came."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self.tasks: Counter[str] = Counter()
        self.jobs: Counter[str] = Counter()
        self.ready_since: Instant | None = None

    def take(self, job: Job) -> int:
        """Count a job; about how much work that was."""
        if is_finished(job):
            return 0
        if job.queued:
            since = max(job.created_at, job.not_before)
            self.ready_since = min(self.ready_since or since, since)
        found = self._around.codes(job)
        self.tasks.update(found)
        self.jobs.update(found.keys())
        return len(job.tasks or ())

    def view(self) -> View:
        return {
            "waiting": self.tasks.total(),
            "reasons": [
                {
                    "code": code,
                    "tasks": count,
                    "jobs": self.jobs[code],
                    "means": CODES[code].means,
                    "cure": CODES[code].cure,
                }
                for code, count in sorted(self.tasks.items(), key=lambda each: (-each[1], each[0]))
            ],
        }
