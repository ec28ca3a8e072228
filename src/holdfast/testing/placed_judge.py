"""Whether a log keeps what the scheduler promises, read record by record and by other means than
the code that wrote it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from holdfast.core import events as e
from holdfast.core.placing import ALL_TASKS, FINISH, SUCCESS, After
from holdfast.core.record import Record
from holdfast.core.spec import JobSpec
from holdfast.wire.exchange import Capacity

PREEMPTED = "preempted"


class Site(Struct):
    """What a worker of this name has, in all its lives."""

    capacity: Capacity
    attributes: Mapping[str, str]


class Held(Struct):
    """A lease that lives."""

    job_id: str
    index: int
    worker: str
    incarnation: int
    slot: int
    rank: int


class Told(Struct):
    """A job as its records tell it. `good` and `bad` are tasks that ended so."""

    spec: JobSpec
    count: int
    after: tuple[After, ...]
    is_open: bool
    cause: str = ""
    good: set[int] = field(default_factory=set)
    bad: set[int] = field(default_factory=set)

    def outcome(self, index: int) -> bool | None:
        """Whether it, or one task of it, went well; None before the end."""
        if index != ALL_TASKS:
            return True if index in self.good else False if index in self.bad else None
        if len(self.good | self.bad) < self.count:
            return None
        return not self.bad and not self.cause


class Bucket(Struct):
    """As full as a rate could ever have filled it."""

    starts: int
    per_ms: int
    tokens: float
    at: int


class Judge:
    """`troubles` is what the log should not say; `seen` counts what it shows. `kept` are leases
    whose results were told to be kept until their gang is whole."""

    def __init__(self, sites: Mapping[str, Site]) -> None:
        self.troubles: list[str] = []
        self.seen: Counter[str] = Counter()
        self.jobs: dict[str, Told] = {}
        self.ended: dict[int, str] = {}
        self.evicted: set[tuple[str, str]] = set()
        self._sites = sites
        self._held: dict[int, Held] = {}
        self._caps: dict[tuple[str, str], int] = {}
        self._amounts: dict[tuple[str, str], dict[str, int]] = {}
        self._buckets: dict[tuple[str, str], Bucket] = {}

    def feed(self, record: Record) -> None:
        granted = [event for event in record.events if isinstance(event, e.LeasesGranted)]
        for event in record.events:
            self._take(event, record)
        for grant in granted:
            self._look_at_grant(grant, record)
        if granted:
            self._look_at_rooms({grant.worker for grant in granted})
        self._look_at_gangs(record, {grant.job_id for grant in granted})

    # --- taking in ------------------------------------------------------------------------------

    def _take(self, event: e.AnyEvent, record: Record) -> None:
        if isinstance(event, e.JobSubmitted):
            self.jobs[event.job_id] = Told(event.spec, event.count, event.after, not event.after)
        elif isinstance(event, e.JobUnblocked):
            self._unblock(event)
        elif isinstance(event, e.JobCancelled):
            self.jobs[event.job_id].cause = event.cause
            self.seen[event.cause] += 1
        elif isinstance(event, e.LimitSet):
            self._limit(event, record.at)
        elif isinstance(event, e.LimitCleared):
            self._caps.pop((event.scope, event.name), None)
            self._amounts.pop((event.scope, event.name), None)
            self._buckets.pop((event.scope, event.name), None)
        elif isinstance(event, e.LeasesGranted):
            for index, lease in zip(event.indices, e.lease_ids(event), strict=True):
                self._held[lease] = Held(
                    event.job_id, index, event.worker, event.incarnation, event.slot, event.rank
                )
        elif isinstance(event, e.TasksRetried | e.TasksRestored):
            job = self.jobs[event.job_id]
            job.cause = ""
            job.bad -= set(_within(event.spans))
        elif isinstance(event, e.TasksCompleted):
            for commit in event.commits:
                self._end(commit.lease_id, "committed")
                self.jobs[event.job_id].good.add(commit.index)
        elif isinstance(event, e.WithEnds):
            self._take_ends(event, record)

    def _unblock(self, event: e.JobUnblocked) -> None:
        job = self.jobs[event.job_id]
        job.is_open = True
        self.seen["JobUnblocked"] += 1
        for after in job.after:
            went_well = self.jobs[after.job_id].outcome(after.index)
            is_so = after.condition == FINISH or went_well == (after.condition == SUCCESS)
            if went_well is None or not is_so:
                self.troubles.append(f"job {event.job_id} was unblocked before {after}")

    def _limit(self, event: e.LimitSet, at: int) -> None:
        name = (event.scope, event.name)
        self._caps.pop(name, None)
        self._amounts[name] = dict(event.amounts)
        if event.running:
            self._caps[name] = event.running
        former = self._buckets.pop(name, None)
        if event.starts:
            kept = former is not None and (former.starts, former.per_ms)
            if former is None or kept != (event.starts, event.per_ms):
                former = Bucket(event.starts, event.per_ms, float(event.starts), at)
            self._buckets[name] = former

    def _take_ends(self, event: e.WithEnds, record: Record) -> None:
        for end in event.ends:
            if end.reason == PREEMPTED:
                self._look_at_eviction(end, record)
            self._end(end.lease_id, end.reason)
        if not isinstance(event, e.AttemptsReturned):
            self.jobs[event.job_id].bad |= {end.index for end in event.ends}
        if isinstance(event, e.TasksKilled | e.TasksSetAside):
            self.jobs[event.job_id].bad |= set(_within(event.spans))

    def _end(self, lease: int, how: str) -> None:
        if self._held.pop(lease, None) is None:
            self.troubles.append(f"lease {lease} ended {how} and was not held")
        self.ended[lease] = how

    # --- judging --------------------------------------------------------------------------------

    def _look_at_grant(self, grant: e.LeasesGranted, record: Record) -> None:
        job = self.jobs[grant.job_id]
        if not job.is_open:
            self.troubles.append(f"job {grant.job_id} began before what it comes after")
        self.seen["aged"] += grant.rank > job.spec.priority
        attributes = self._sites[grant.worker].attributes
        for constraint in job.spec.placing.constraints:
            is_so = attributes.get(constraint.attribute) in constraint.values
            if not constraint.weight and is_so != (constraint.operator == "eq"):
                self.troubles.append(f"{grant.worker} does not meet {constraint}")
        for name in _names(job.spec):
            bucket = self._buckets.get(name)
            if bucket is not None:
                gained = (record.at - bucket.at) * bucket.starts / bucket.per_ms
                bucket.tokens = min(float(bucket.starts), bucket.tokens + gained)
                bucket.at = record.at
                bucket.tokens -= len(grant.indices)
                if bucket.tokens < -0.001:
                    self.troubles.append(f"{name} starts faster than it may, at {record.at}")
            caps = [cap for key, cap in job.spec.placing.keys if ("key", key) == name and cap]
            caps += [self._caps[name]] if name in self._caps else []
            if caps and self._slots_of(name) > min(caps):
                held = self._slots_of(name)
                self.troubles.append(f"{name} holds {held} of {min(caps)}, at {record.at}")
            self.seen["at a limit"] += bool(caps) and self._slots_of(name) == min(caps)
            for resource, most in self._amounts.get(name, {}).items():
                taken = sum(_need(spec, resource) for spec in self._specs_of(name))
                if _need(job.spec, resource) and taken > most:
                    told = f"{name} takes {taken} of {most} {resource}, at {record.at}"
                    self.troubles.append(told)
                self.seen["at an amount"] += taken == most

    def _slots_of(self, name: tuple[str, str]) -> int:
        """How many tasks of this name can run at once."""
        return len(self._specs_of(name))

    def _specs_of(self, name: tuple[str, str]) -> list[JobSpec]:
        """What each slot is held for that is held for what has this name."""
        slots = {
            (held.worker, held.incarnation, held.slot): self.jobs[held.job_id].spec
            for held in self._held.values()
        }
        return [spec for spec in slots.values() if name in _names(spec)]

    def _look_at_rooms(self, workers: Iterable[str]) -> None:
        """What the slots of each life of these workers are held for, all at once, fits there."""
        for worker in workers:
            slots: dict[tuple[int, int], JobSpec] = {}
            for held in self._held.values():
                if held.worker == worker:
                    slots[held.incarnation, held.slot] = self.jobs[held.job_id].spec
            for life in {life for life, _ in slots}:
                specs = [spec for (other, _), spec in slots.items() if other == life]
                if not _fits(specs, self._sites[worker].capacity):
                    self.troubles.append(f"{worker}:{life} was given more than it has")

    def _look_at_gangs(self, record: Record, granted: set[str]) -> None:
        """A gang is held whole or not at all after every record, and committed so."""
        touched = {getattr(event, "job_id", "") for event in record.events}
        for job_id in touched:
            job = self.jobs.get(job_id)
            if job is None or not job.spec.placing.gang:
                continue
            held = [one for one in self._held.values() if one.job_id == job_id]
            if len(held) not in (0, job.count) or len(job.good) not in (0, job.count):
                told = f"{len(held)} held and {len(job.good)} committed of {job.count}"
                self.troubles.append(f"gang {job_id}: {told}, at {record.at}")
            if job_id not in granted:
                continue
            self.seen["gang granted"] += 1
            if len({(one.worker, one.incarnation, one.slot) for one in held}) != job.count:
                self.troubles.append(f"gang {job_id} has not a slot for each")
            by = job.spec.placing.gang_by
            groups = {self._sites[one.worker].attributes.get(by) for one in held}
            if by and len(groups) != 1:
                self.troubles.append(f"gang {job_id} lies in {groups}")

    def _look_at_eviction(self, end: e.End, record: Record) -> None:
        """It cost nothing, and whoever took the place was above the rank it was given at."""
        held = self._held.get(end.lease_id)
        if end.charged:
            self.troubles.append(f"a preempted attempt was charged to {end.charged}")
        if held is None or record.command != "PreemptAttempts":
            return
        by = end.error.split()[1]
        victim, urgent = self.jobs[held.job_id].spec, self.jobs[by].spec
        if not urgent.priority > held.rank >= victim.priority:
            self.troubles.append(f"job {by} took the place of {held}")
        self.evicted.add((by, held.job_id))
        if (held.job_id, by) in self.evicted:
            self.troubles.append(f"jobs {by} and {held.job_id} evict each other")


def _within(spans: Iterable[e.Span]) -> Iterator[int]:
    for span in spans:
        yield from range(span.first, span.last + 1)


def _names(spec: JobSpec) -> list[tuple[str, str]]:
    keys = [("key", key) for key, _ in spec.placing.keys]
    return [("namespace", spec.namespace), ("user", spec.user), *keys]


def _need(spec: JobSpec, resource: str) -> int:
    own = {"cpus": spec.cpus_milli, "memory": spec.memory_bytes, "gpus": spec.gpus}
    return own.get(resource, dict(spec.placing.resources).get(resource, 0))


def _fits(specs: list[JobSpec], room: Capacity) -> bool:
    named: Counter[str] = Counter()
    for spec in specs:
        named.update(dict(spec.placing.resources))
    return (
        len(specs) <= room.slots
        and sum(spec.cpus_milli for spec in specs) <= room.cpus_milli
        and sum(spec.memory_bytes for spec in specs) <= room.memory_bytes
        and sum(spec.gpus for spec in specs) <= room.gpus
        and all(amount <= dict(room.resources).get(name, 0) for name, amount in named.items())
    )
