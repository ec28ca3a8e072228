"""The core and nothing else, driven by hand: decide, encode, decode, apply.

A `World` has a clock that moves when told, and a list of records where a coordinator has a log.
Every accepted command passes through bytes before it is applied, so a test meets the same events
that a restart would. There is no disk, no network and no worker: tests that need those use others.
"""

from collections.abc import Container
from typing import Any

from holdfast.core import commands as c
from holdfast.core.apply import apply, replay
from holdfast.core.decide import decide
from holdfast.core.decide.tick import still_due
from holdfast.core.decision import Accepted, Decision
from holdfast.core.events import AnyEvent, LeasesGranted
from holdfast.core.freeze import fingerprint, freeze, thaw
from holdfast.core.ids import Index, Instant, JobId, LeaseId, Position, WorkerId
from holdfast.core.invariants import Violation, Watch, check
from holdfast.core.job import Job
from holdfast.core.owed import EFFECT, DebtName, Entry, Stored
from holdfast.core.ready import take
from holdfast.core.record import Record, decode_record, encode_record
from holdfast.core.reports import Done, Failed, Released, Started
from holdfast.core.spec import JobSpec
from holdfast.core.state import State
from holdfast.core.task import Task

START = Instant(1_000_000)
MAIL = Entry(EFFECT, "mail", "", b"dear")
POST = Entry(EFFECT, "post", "", b"sir")
PLAIN = JobSpec(name="work", kind="function", target="work")


class World:
    """One state, its records, and the time. `log[i]` is the record at position i + 1."""

    def __init__(self, *, opened: bool = True, actor: str = "test") -> None:
        self.state = State()
        self.now: Instant = START
        self.wall: Instant = START
        self.log: list[bytes] = []
        self.watch = Watch()
        self.violations: list[Violation] = []
        self.actor = actor
        if opened:
            self.open()

    # --- the one door ---------------------------------------------------------------------------

    def do(self, command: c.Command, *, request_id: str = "", reason: str = "") -> Decision:
        """Decide, and where something became true, write it down and fold what was written."""
        if isinstance(command, c.SettleTies):
            for job_id in command.jobs:
                self.state.unsettled.pop(job_id, None)
        decision = decide(self.state, command, self.now)
        if isinstance(decision, Accepted) and decision.events:
            name = type(command).__name__
            self.append(
                Record(self.now, name, self.actor, request_id, reason, decision.events)
            )
        if isinstance(command, c.Tick):
            self._prune(command)
        return decision

    def _prune(self, tick: c.Tick) -> None:
        """Timers that have done their work go after every tick, as they do in a coordinator."""
        state, jobs = self.state, self.state.jobs
        for timers, limit in ((state.timers, self.now), (state.wall_timers, tick.wall)):
            past = [entry for entry in timers if entry[0] <= limit]
            kept = [
                (at, job_id)
                for at, job_id in past
                if job_id in jobs and still_due(jobs[job_id], tick, self.now)
            ]
            timers[:] = sorted([*kept, *(entry for entry in timers if entry[0] > limit)])

    def append(self, record: Record) -> None:
        data = encode_record(record)
        position = Position(len(self.log) + 1)
        written = decode_record(data)
        apply(self.state, written, position)
        self.log.append(data)
        self.violations.extend(self.watch.feed(position, written))

    def did(self, command: c.Command) -> tuple[AnyEvent, ...]:
        """The events of a command that must not be refused."""
        decision = self.do(command)
        if not isinstance(decision, Accepted):
            raise AssertionError(f"{command} was refused: {decision}")
        return decision.events

    # --- looking --------------------------------------------------------------------------------

    def records(self) -> list[tuple[Position, Record]]:
        return [(Position(i), decode_record(data)) for i, data in enumerate(self.log, start=1)]

    def replayed(self, upto: int | None = None) -> State:
        """A state made from the written bytes alone."""
        return replay(State(), self.records()[:upto])

    def fingerprint(self) -> str:
        return fingerprint(self.state)

    def troubles(self) -> tuple[Violation, ...]:
        """Everything the invariants and the watch have to say."""
        return (*check(self.state), *self.violations)

    def task(self, job_id: str, index: int = 0) -> Task:
        """The record of a task under way."""
        return (self.state.jobs[JobId(job_id)].tasks or {})[Index(index)]

    # --- time and crashes -----------------------------------------------------------------------

    def sleep(self, ms: int) -> None:
        """Time passes on both clocks; nothing is judged until a command comes."""
        self.now = Instant(self.now + ms)
        self.wall = Instant(self.wall + ms)

    def tick(self, **limits: Any) -> tuple[AnyEvent, ...]:
        return self.did(c.Tick(wall=self.wall, **limits))

    def open(self, *, term_ms: int = 15_000, served: bool = False) -> tuple[AnyEvent, ...]:
        epoch = self.state.epoch + 1
        return self.did(
            c.OpenLog(
                log_id="log", epoch=epoch, version="test", host="host", pid=epoch,
                torn_bytes=0, term_ms=term_ms, served=served,
            )
        )  # fmt: skip

    def crash(self, *, lose: int = 0, snapshot: bool = False) -> None:
        """Memory is gone, and the last `lose` records with it; what is left is read again."""
        if snapshot and not lose:
            self.state = thaw(freeze(self.state))
            return
        del self.log[len(self.log) - lose :]
        self.state = State()
        self.watch, self.violations = Watch(), []
        for position, record in self.records():
            apply(self.state, record, position)
            self.violations.extend(self.watch.feed(position, record))

    def settle(self) -> None:
        """Judge whoever is tied to what has ended, until nothing more follows."""
        while self.state.unsettled:
            self.did(c.SettleTies(jobs=tuple(self.state.unsettled)))

    # --- the common errands ---------------------------------------------------------------------

    def submit(
        self,
        job_id: str = "j",
        count: int = 1,
        *,
        spec: JobSpec = PLAIN,
        items: tuple[bytes, ...] = (),
        key: str = "",
        digest: bytes = b"",
        sealed: bool = True,
        delay_ms: int = 0,
        not_before_wall: int = 0,
        deadline_wall: int = 0,
        **ties: Any,
    ) -> Decision:
        return self.do(
            c.SubmitJob(
                job_id=JobId(job_id), spec=spec, key=key, digest=digest, items=items,
                count=0 if items else count, sealed=sealed, delay_ms=delay_ms,
                not_before_wall=Instant(not_before_wall), deadline_wall=Instant(deadline_wall),
                **ties,
            )
        )  # fmt: skip

    def grant_gang(
        self, job_id: str, *workers: str, term_ms: int = 0, rank: int | None = None
    ) -> tuple[LeaseId, ...]:
        """Lease task after task of a gang to these workers, and say under which ids."""
        members = tuple(
            c.Member(Index(index), WorkerId(worker), 1, index, term_ms)
            for index, worker in enumerate(workers)
        )
        decision = self.do(c.GrantGang(job_id=JobId(job_id), members=members, rank=rank))
        granted = decision.events if isinstance(decision, Accepted) else ()
        return tuple(g.first_lease for g in granted if isinstance(g, LeasesGranted))

    def commit_gang(self, job_id: str) -> Decision:
        """Every member that is held reports its result."""
        tasks = (self.state.jobs[JobId(job_id)].tasks or {}).values()
        members = tuple(
            c.Finished(
                task.worker, task.incarnation,
                Done(task.job_id, task.index, task.lease_id, 0, b"ok"),
            )
            for task in tasks
            if task.lease_id
        )  # fmt: skip
        return self.do(c.CommitGang(job_id=JobId(job_id), members=members))

    def grant(
        self,
        job_id: str = "j",
        *indices: int,
        worker: str = "w",
        incarnation: int = 1,
        slot: int = 0,
        term_ms: int = 0,
        alone: bool = False,
    ) -> tuple[LeaseId, ...]:
        """Lease these tasks (by default the first), and say under which ids."""
        decision = self.do(
            c.GrantLeases(
                job_id=JobId(job_id), worker=WorkerId(worker), incarnation=incarnation,
                slot=slot, indices=tuple(map(Index, indices or (0,))), term_ms=term_ms, alone=alone,
            )
        )  # fmt: skip
        granted = decision.answer if isinstance(decision, Accepted) else None
        if not isinstance(granted, LeasesGranted):
            return ()
        first = granted.first_lease
        return tuple(LeaseId(first + offset) for offset in range(len(granted.indices)))

    def start(
        self, job_id: str, index: int, lease_id: int, *, worker: str = "w", incarnation: int = 1
    ) -> Decision:
        report = Started(JobId(job_id), Index(index), LeaseId(lease_id), 0)
        return self.do(
            c.StartAttempts(worker=WorkerId(worker), incarnation=incarnation, started=(report,))
        )

    def commit(
        self,
        job_id: str,
        index: int,
        lease_id: int,
        *,
        worker: str = "w",
        incarnation: int = 1,
        result: bytes = b"ok",
        owed: tuple[Entry, ...] = (),
        stored: Stored | None = None,
    ) -> Decision:
        report = Done(JobId(job_id), Index(index), LeaseId(lease_id), 0, result, owed, stored)
        return self.do(
            c.CommitTasks(worker=WorkerId(worker), incarnation=incarnation, done=(report,))
        )

    def confirm(self, job_id: str, index: int, *numbers: int) -> tuple[AnyEvent, ...]:
        """These entries of a task have been delivered."""
        names = tuple(DebtName(JobId(job_id), Index(index), number) for number in numbers)
        return self.did(c.ConfirmDeliveries(names=names))

    def fail(
        self,
        job_id: str,
        index: int,
        lease_id: int,
        *,
        worker: str = "w",
        incarnation: int = 1,
        reason: str = "failed",
        roll: float = 0.0,
    ) -> Decision:
        report = Failed(JobId(job_id), Index(index), LeaseId(lease_id), 0, reason, "boom", "", 1)
        return self.do(
            c.FailAttempt(
                worker=WorkerId(worker), incarnation=incarnation, failed=report, roll=roll
            )
        )

    def release(
        self,
        job_id: str,
        index: int,
        lease_id: int,
        *,
        worker: str = "w",
        incarnation: int = 1,
        reason: str = "released",
    ) -> Decision:
        report = Released(JobId(job_id), Index(index), LeaseId(lease_id), False)
        return self.do(
            c.ReleaseAttempts(
                worker=WorkerId(worker), incarnation=incarnation, released=(report,), reason=reason
            )
        )

    def leasable(self) -> dict[JobId, list[Index]]:
        """What a scheduler would find to lease at this moment, job by job."""
        self.state.ready.wake(self.state.jobs, self.now)
        return {
            job.job_id: sorted(take(job, self.now, job.count))
            for job in in_line(self.state, self.now)
        }


def in_line(state: State, now: Instant, paused: Container[str] = ()) -> list[Job]:
    """The jobs with something to lease, most urgent first, oldest first."""
    found: list[tuple[int, Position, Job]] = []
    for row in state.ready.rows(state.jobs, now, paused):
        while row.head is not None:
            found.append((-row.priority, row.head.position, row.head))
            row.advance()
    return [job for _, _, job in sorted(found, key=lambda entry: entry[:2])]
