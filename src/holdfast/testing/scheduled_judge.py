"""Whether a log keeps what schedules promise: each instant that came due has one run, or is skipped
for a reason that its policies give, and never both.

The calendar here is a grid and nothing else: cron expressions that name every so many minutes, and
intervals. What the wall clock showed is told by whoever set it.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from holdfast.core import events as e
from holdfast.core.placing import ALL_TASKS
from holdfast.core.record import Record
from holdfast.core.schedule import Definition
from holdfast.testing.placed_judge import Judge, Site

MINUTE: Final = 60_000
LATE_MS: Final = 60_000
MADE_UP_MOST: Final = 1_000
GRIDS: Final = {"* * * * *": MINUTE, "*/2 * * * *": 2 * MINUTE, "*/5 * * * *": 5 * MINUTE}
"""How far apart the instants of these expressions lie, in zones that are off by five minutes or a
multiple of that."""

CLOSING: Final = "closing"
"""The reason of a pause that comes when everything that was due has been seen to."""


class Kept(Struct):
    """A schedule as its records tell it. Its instants are those that lie whole steps from
    `expected`, which is the one that has its turn; `taken` is the last that had it."""

    definition: Definition
    step: int
    expected: int
    taken: int = 0
    is_paused: bool = False
    last_job: str = ""


class ScheduledJudge(Judge):
    """`walls` has what the wall clock was ahead of log time, from each log time on. `runs` has the
    job of each instant that the clock or a backfill ran, by the name of the schedule."""

    def __init__(self, sites: Mapping[str, Site], walls: Iterable[tuple[int, int]]) -> None:
        super().__init__(sites)
        self.runs: dict[str, dict[int, str]] = {}
        self.fired: set[str] = set()
        self._walls = list(walls)
        self._kept: dict[str, Kept] = {}
        self._going_on: set[str] = set()

    def feed(self, record: Record) -> None:
        lasts = {name: kept.last_job for name, kept in self._kept.items() if kept.last_job}
        self._going_on = {name for name, job_id in lasts.items() if self._is_going_on(job_id)}
        super().feed(record)
        for event in record.events:
            if isinstance(event, e.ScheduleSet):
                self._look_at_set(event, record)
            elif isinstance(event, e.ScheduleRemoved):
                del self._kept[event.name]
            elif isinstance(event, e.SchedulePaused):
                self._look_at_pause(event, record)
            elif isinstance(event, e.ScheduleResumed):
                self._look_at_resume(event, record)
            elif isinstance(event, e.ScheduleFired):
                self._look_at_fire(event, record)
            elif isinstance(event, e.ScheduleSkipped):
                self._look_at_skip(event, record)

    # --- people ---------------------------------------------------------------------------------

    def _look_at_set(self, event: e.ScheduleSet, record: Record) -> None:
        former = self._kept.get(event.name)
        timing = event.definition.timing
        step = timing.every_ms or GRIDS[timing.cron]
        after = [max(wall, former.taken if former else 0) for wall in self._walls_at(record.at)]
        # An interval counts from now; a cron expression has its minutes.
        firsts = [one + step if timing.every_ms else (one // step + 1) * step for one in after]
        self._expect(event.next_wall in firsts, event, "does not begin with its first instant")
        kept = Kept(event.definition, step, event.next_wall)
        if former is not None:
            kept.taken, kept.last_job = former.taken, former.last_job
            kept.is_paused = former.is_paused
        self._kept[event.name] = kept

    def _look_at_pause(self, event: e.SchedulePaused, record: Record) -> None:
        kept = self._kept[event.name]
        if event.reason == CLOSING and not kept.is_paused:
            behind = kept.expected <= max(self._walls_at(record.at))
            self._expect(not behind, event, f"did nothing about {kept.expected}")
        kept.is_paused = True

    def _look_at_resume(self, event: e.ScheduleResumed, record: Record) -> None:
        kept = self._kept[event.name]
        nexts: list[int] = []
        for wall in self._walls_at(record.at):
            after = max(wall, kept.taken)
            nexts.append(kept.expected + ((after - kept.expected) // kept.step + 1) * kept.step)
        self._expect(event.next_wall in nexts, event, "goes on with another than the next")
        kept.expected, kept.is_paused = event.next_wall, False

    # --- the clock ------------------------------------------------------------------------------

    def _look_at_fire(self, event: e.ScheduleFired, record: Record) -> None:
        kept = self._kept[event.name]
        self.seen[f"fired {event.cause}"] += 1
        self.fired.add(event.job_id)
        self._look_at_run(event, record)
        stopped: set[str] = {
            one.job_id for one in record.events
            if isinstance(one, e.JobCancelled) and one.cause == "replaced"
        }  # fmt: skip
        if event.cause == "by_hand":
            self._expect(event.next_wall == kept.expected, event, "lost its turn by a run by hand")
            self._expect(not stopped, event, "replaced a run by a run by hand")
            kept.last_job = event.job_id
            return
        runs = self.runs.setdefault(event.name, {})
        self._expect(event.at_wall not in runs, event, "ran an instant twice")
        self._expect(self._has_come(event.at_wall, record), event, "ran what had not come")
        runs[event.at_wall] = event.job_id
        if event.cause == "backfill":
            is_on_grid = (event.at_wall - kept.expected) % kept.step == 0
            self._expect(is_on_grid, event, "ran at a time that is none of its instants")
            self._expect(event.next_wall == kept.expected, event, "lost its turn by a backfill")
            return
        self._look_at_turn(kept, event, event.at_wall, event.at_wall)
        self._look_at_lateness(kept, event, record)
        self._look_at_overlap(kept, event, stopped)
        kept.last_job = event.job_id

    def _look_at_run(self, event: e.ScheduleFired, record: Record) -> None:
        """It was submitted in the same record, once, and is told which instant it is for."""
        submitted = [
            one for one in record.events
            if isinstance(one, e.JobSubmitted) and one.job_id == event.job_id
        ]  # fmt: skip
        stamp = datetime.fromtimestamp(event.at_wall / 1_000, UTC)
        told = f"{stamp:%Y-%m-%dT%H:%M:%S}.{event.at_wall % 1_000:03}Z".encode()
        is_whole = len(submitted) == 1 and all(told in item for item in submitted[0].items)
        self._expect(is_whole, event, "has no run of its own in its record")
        is_named = all(("schedule", event.name) in one.spec.labels for one in submitted)
        self._expect(is_named, event, "has a run without its name")

    def _look_at_lateness(self, kept: Kept, event: e.ScheduleFired, record: Record) -> None:
        walls = self._walls_at(record.at)
        is_on_time = any(wall - event.at_wall < LATE_MS for wall in walls)
        is_latest = any(event.at_wall + kept.step > wall for wall in walls)
        missed = kept.definition.missed
        self._expect(is_on_time or event.cause == "made_up", event, "was late and did not say so")
        self._expect(missed == "all" or is_latest, event, "made up for more than one")
        self._expect(missed != "skip" or is_on_time, event, "made up for what it skips")
        self.seen[f"{missed} {event.cause}"] += 1

    def _look_at_overlap(self, kept: Kept, event: e.ScheduleFired, stopped: set[str]) -> None:
        overlap, goes_on = kept.definition.overlap, event.name in self._going_on
        self._expect(not (overlap == "skip" and goes_on), event, "ran beside its former run")
        wanted = {kept.last_job} if overlap == "replace" and goes_on else set()
        self._expect(stopped == wanted, event, f"stopped {stopped}, not {wanted}")
        still = [job_id for job_id in wanted if self._is_going_on(job_id)]
        self._expect(not still, event, f"replaced {still}, which goes on")
        self.seen[f"{overlap} while one goes on"] += goes_on

    def _look_at_skip(self, event: e.ScheduleSkipped, record: Record) -> None:
        kept = self._kept[event.name]
        self._look_at_turn(kept, event, event.from_wall, event.until_wall)
        count = (event.until_wall - event.from_wall) // kept.step + 1
        self._expect(event.count == count, event, f"skipped {count} and says {event.count}")
        self._expect(self._has_come(event.until_wall, record), event, "skipped what had not come")
        self._expect(self._is_due_skip(kept, event, record), event, "skipped against its policy")
        self.seen[f"skipped {event.why}"] += 1

    def _is_due_skip(self, kept: Kept, event: e.ScheduleSkipped, record: Record) -> bool:
        definition = kept.definition
        if event.why == "overlap":
            goes_on = event.name in self._going_on
            return definition.overlap == "skip" and goes_on and event.count == 1
        if event.why == "known":
            return event.from_wall in self.runs.get(event.name, {}) and event.count == 1
        if event.why != "missed":
            return False
        walls, until = self._walls_at(record.at), event.until_wall
        later = {"skip": 1, "one": 1, "all": MADE_UP_MOST}[definition.missed]
        is_passed = any(until + later * kept.step <= wall for wall in walls)
        is_late = any(until + LATE_MS <= wall for wall in walls)
        return is_passed or (definition.missed == "skip" and is_late)

    def _look_at_turn(
        self, kept: Kept, event: e.ScheduleFired | e.ScheduleSkipped, first: int, last: int
    ) -> None:
        """Instants have their turns in their order, none is left out and none comes twice."""
        is_in_turn = first == kept.expected and not kept.is_paused and first <= last
        self._expect(is_in_turn, event, f"took {first}, and {kept.expected} was next")
        self._expect(event.next_wall == last + kept.step, event, "left instants out")
        kept.taken, kept.expected = last, event.next_wall

    # --- what is known --------------------------------------------------------------------------

    def _is_going_on(self, job_id: str) -> bool:
        return self.jobs[job_id].outcome(ALL_TASKS) is None

    def _has_come(self, instant: int, record: Record) -> bool:
        return instant <= max(self._walls_at(record.at))

    def _walls_at(self, at: int) -> list[int]:
        """What the wall clock showed: several answers where it was set at that very moment."""
        before = [ahead for since, ahead in self._walls if since < at][-1:]
        return [at + ahead for ahead in (*before, *[one for t, one in self._walls if t == at])]

    def _expect(self, is_so: bool, event: e.AnyEvent, trouble: str) -> None:
        if not is_so:
            self.troubles.append(f"schedule {getattr(event, 'name', '')} {trouble}: {event}")
