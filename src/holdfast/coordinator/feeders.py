"""Who still feeds the open jobs: when each was heard of last, in memory alone.

A job that nobody feeds any more would stay open for ever. Under a key its feeder may come back
much later and go on. A service stays open until somebody ends it, however long nobody feeds it.
"""

from typing import Final

from holdfast.coordinator.coordinator import Coordinator
from holdfast.core.ids import Instant, JobId

SILENCE_MS: Final = 60_000
KEYED_SILENCE_MS: Final = 86_400_000


class Feeders:
    """After a restart every open job counts as heard of when it is first looked at: it was the
    server that was away."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._heard: dict[JobId, Instant] = {}
        self._look_at = Instant(coordinator.now() + SILENCE_MS)
        self._look(coordinator.now())

    def heard(self, job_id: JobId) -> None:
        self._heard[job_id] = self._coordinator.now()

    def next_due(self) -> Instant:
        """When to look again, at the latest."""
        return self._look_at

    def silent(self, now: Instant) -> tuple[JobId, ...]:
        """The open jobs whose feeder was not heard of for too long."""
        return self._look(now) if now >= self._look_at else ()

    def _look(self, now: Instant) -> tuple[JobId, ...]:
        state = self._coordinator.state
        known = self._heard
        self._heard = {
            job_id: known.get(job_id, now)
            for job_id in state.open_jobs
            if state.jobs[job_id].service is None
        }
        ends = {
            job_id: heard + (KEYED_SILENCE_MS if state.jobs[job_id].key else SILENCE_MS)
            for job_id, heard in self._heard.items()
        }
        later = [end for end in ends.values() if end > now]
        self._look_at = Instant(min([*later, now + SILENCE_MS]))
        return tuple(job_id for job_id, end in ends.items() if end <= now)
