"""Which jobs have a task to lease, oldest first. An index: rebuilt, never written.

A job stands in the queue of its priority once, however many of its tasks wait. Tasks that never
were leased are found by the job's cursor, so a million of them cost the queue nothing; those that
came back stand in the job's own `due`, or in `later` until their time.
"""

from collections import deque
from collections.abc import Container, Iterable, Iterator
from heapq import heappop, heappush
from typing import cast

from holdfast.core.ids import NEVER, Index, Instant, JobId, Position
from holdfast.core.job import Job, first_fresh
from holdfast.core.line import Line
from holdfast.core.shape import Shape, has_own_slots, shape_of
from holdfast.core.spec import STOP, JobSpec
from holdfast.core.task import ASIDE, FRESH, Task, TaskState


class Row:
    """The jobs of one priority and shape that have something to lease, oldest first: one row to
    whoever places them. `head` is the next of them; there is none left where it is nothing."""

    __slots__ = ("_ahead", "_jobs", "_now", "_rest", "count", "head", "priority", "shape")

    def __init__(
        self,
        key: tuple[int, Shape],
        queue: Line,
        jobs: dict[JobId, Job],
        now: Instant,
    ) -> None:
        self.priority, self.shape = key
        self.count = len(queue)
        self._jobs, self._now = jobs, now
        self._rest = iter(queue)
        # Those behind the head that somebody has looked at already.
        self._ahead: deque[Job] = deque()
        self.head = self._find()

    def advance(self) -> None:
        """On to the next job."""
        self.head = self._ahead.popleft() if self._ahead else self._find()

    def singles(self, most: int) -> list[Job]:
        """The head and those right behind it, as far as each is one task that never was leased."""
        found: list[Job] = []
        for job in self._from_head():
            if len(found) >= most or not _is_single(job):
                break
            found.append(job)
        return found

    def waiting(self, most: int) -> int:
        """How many tasks can be leased, of the head and all behind it, counted up to `most`."""
        found = 0
        for job in self._from_head():
            found += 1 if _is_single(job) else count_leasable(job, self._now, most)
            if found >= most:
                return most
        return found

    def _from_head(self) -> Iterator[Job]:
        """The head and all behind it; nobody moves on."""
        if self.head is None:
            return
        yield self.head
        yield from tuple(self._ahead)
        while (job := self._find()) is not None:
            self._ahead.append(job)
            yield job

    def _find(self) -> Job | None:
        """The next in line with something to lease. Nothing may be put in line, and nothing
        leased, as long as this goes on."""
        jobs, now = self._jobs, self._now
        for job_id in self._rest:
            job = jobs.get(job_id)
            if job is not None and has_leasable(job, now):
                return job
        return None


def row_of(job: Job, now: Instant) -> Row:
    """A row of this one job, which need not be in any line."""
    line = Line()
    line.add(job.position, job.job_id)
    return Row((job.spec.priority, shape_of(job)), line, {job.job_id: job}, now)


class ReadyQueue:
    """The lines of jobs with something to lease, one a priority and shape, and those that will
    have something, by time. However many jobs wait, a round looks at one a shape."""

    def __init__(self) -> None:
        self.queues: dict[tuple[int, Shape], Line] = {}
        self.sleeping: list[tuple[Instant, JobId]] = []

    def offer(self, job: Job) -> None:
        """The job may have something to lease: put it in line, once, before those that came after
        it. One whose task comes back would wait behind all the work of younger jobs otherwise."""
        if job.queued:
            return
        job.queued = True
        self._queue_of(job).add(job.position, job.job_id)

    def offer_all(self, jobs: Iterable[Job]) -> None:
        """Offer a million at a restart: those of one spec look for their line once, and go there
        together."""
        groups: dict[JobSpec, tuple[list[Position], list[JobId]]] = {}
        lines: list[tuple[Line, list[Position], list[JobId]]] = []
        for job in jobs:
            if job.queued:
                continue
            group = groups.get(job.spec)
            if group is None:
                if has_own_slots(job):
                    self.offer(job)
                    continue
                group = groups[job.spec] = ([], [])
                lines.append((self._queue_of(job), *group))
            job.queued = True
            group[0].append(job.position)
            group[1].append(job.job_id)
        for line, positions, ids in lines:
            line.extend(positions, ids)

    def _queue_of(self, job: Job) -> Line:
        key = (job.spec.priority, shape_of(job))
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = Line()
        return queue

    def withdraw(self, job: Job) -> None:
        """Take the job out of its line, before it changes into one of another."""
        if job.queued:
            job.queued = False
            self._queue_of(job).remove(job.position, job.job_id)

    def sleep(self, job: Job, until: Instant) -> None:
        """Look at the job again at `until`."""
        heappush(self.sleeping, (until, job.job_id))

    def wake(self, jobs: dict[JobId, Job], now: Instant) -> None:
        """Bring in everything whose time has come."""
        sleeping = self.sleeping
        while sleeping and sleeping[0][0] <= now:
            _, job_id = heappop(sleeping)
            job = jobs.get(job_id)
            if job is not None:
                _promote(job, now)
                if has_leasable(job, now):
                    self.offer(job)

    def next_wake(self) -> Instant:
        return self.sleeping[0][0] if self.sleeping else NEVER

    def rows(
        self, jobs: dict[JobId, Job], now: Instant, paused: Container[str] = ()
    ) -> list[Row]:
        """What can be leased now, a row a priority and shape; nothing of a paused queue. Jobs with
        nothing left leave the line when they reach its front."""
        self.thin(jobs, now)
        return [
            Row(key, queue, jobs, now)
            for key, queue in self.queues.items()
            if key[1].queue not in paused
        ]

    def thin(self, jobs: dict[JobId, Job], now: Instant) -> bool:
        """Let those go that have nothing left, as far as they stand at the front; whether anybody
        is left in a line."""
        for key in list(self.queues):
            queue = self.queues[key]
            self._thin(queue, jobs, now)
            if not queue:
                del self.queues[key]
        return bool(self.queues)

    def _thin(self, queue: Line, jobs: dict[JobId, Job], now: Instant) -> None:
        """Let go of those at the front that have nothing."""
        while queue and not _stands(job := jobs.get(queue.first()), now):
            queue.drop_first()
            _leave(job)


def _stands(job: Job | None, now: Instant) -> bool:
    return job is not None and has_leasable(job, now)


def _leave(job: Job | None) -> None:
    if job is not None:
        job.queued = False


def _is_single(job: Job) -> bool:
    """Whether a job that has something to lease is one task that never was leased."""
    return len(job.states) == 1 and not job.due


def is_begun(job: Job, now: Instant) -> bool:
    """Whether the job's own time has come. It is about its fresh tasks: one with a record was
    leased before, or was given a time of its own."""
    return job.not_before <= now and job.not_before_wall == NEVER and not job.blocked


def has_leasable(job: Job, now: Instant) -> bool:
    if job.blocked:
        return False
    if job.cursor < len(job.states) and is_begun(job, now):
        return True
    return any(_is_due(job, index, now) for index in job.due) if job.due else False


def count_leasable(job: Job, now: Instant, most: int) -> int:
    """How many tasks of one job can be leased, counted up to `most`."""
    if job.blocked:
        return 0
    found = len({index for index in job.due if _is_due(job, index, now)}) if job.due else 0
    if job.cursor < len(job.states) and is_begun(job, now):
        # A million cells are not counted where the next few are enough.
        near = job.states.count(FRESH, job.cursor, job.cursor + most)
        found += near if near == most else job.states.count(FRESH, job.cursor)
    return min(found, most)


def take(job: Job, now: Instant, limit: int) -> list[Index]:
    """Up to `limit` tasks to lease next: those that came back first, then fresh ones in order.

    Nothing moves: the grant does that when it is applied.
    """
    picked: list[Index] = []
    if job.due:
        seen: dict[Index, None] = {}
        for index in job.due:
            if len(seen) >= limit:
                break
            if _is_due(job, index, now):
                seen[index] = None
        picked.extend(seen)
    start = job.cursor
    states = job.states
    want = limit - len(picked)
    if want > 0 and start < len(states) and is_begun(job, now):
        stop = start + want
        if states[start:stop].count(FRESH) == min(want, len(states) - start):
            picked.extend(cast(Iterable[Index], range(start, min(stop, len(states)))))
        else:
            while len(picked) < limit and start < len(states):
                picked.append(Index(start))
                start = first_fresh(job, start + 1)
    return picked


def put_back(ready: ReadyQueue, job: Job, task: Task, now: Instant) -> None:
    """A task with a record waits (again): into `due`, or into `later` until its time."""
    if task.not_before_wall != NEVER:
        return
    if task.not_before <= now:
        if job.due is None:
            job.due = deque()
        job.due.append(task.index)
        if not job.blocked:
            ready.offer(job)
    else:
        if job.later is None:
            job.later = []
        heappush(job.later, (task.not_before, task.index))
        ready.sleep(job, task.not_before)


def bound_waits(job: Job, since: Instant) -> Iterator[Task]:
    """What must not outlive its lease and waits until a time of its own, after `since`."""
    if job.spec.on_disconnect == STOP:
        for task in (job.tasks or {}).values():
            is_timed = task.not_before > since and task.not_before_wall == NEVER
            if is_timed and task.state is TaskState.WAITING:
                yield task


def settle(job: Job) -> None:
    """After a grant: drop what was taken from the front and move the cursor on."""
    due = job.due
    while due and job.states[due[0]] != ASIDE:
        due.popleft()
    if job.cursor < len(job.states) and job.states[job.cursor] != FRESH:
        job.cursor = first_fresh(job, job.cursor)


def _is_due(job: Job, index: Index, now: Instant) -> bool:
    if job.states[index] != ASIDE or job.tasks is None:
        return False
    task = job.tasks[index]
    return task.not_before <= now and task.not_before_wall == NEVER


def _promote(job: Job, now: Instant) -> None:
    later = job.later
    while later and later[0][0] <= now:
        _, index = heappop(later)
        if _is_due(job, index, now):
            if job.due is None:
                job.due = deque()
            job.due.append(index)
