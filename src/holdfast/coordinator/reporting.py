"""What workers say happened, one command a kind of report, and what they are told about it."""

from collections.abc import Callable
from itertools import chain, groupby
from operator import attrgetter
from typing import Final

from holdfast.coordinator.blame import Blame
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.gangs import Gangs
from holdfast.coordinator.portions import portions
from holdfast.coordinator.promises import promise_problem
from holdfast.coordinator.results import Results
from holdfast.coordinator.seats import Paces, Worker
from holdfast.coordinator.settings import Settings
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.attempted import TARGETS
from holdfast.core.decision import Accepted, Lost, Refused
from holdfast.core.ids import JobId, LeaseId, Position
from holdfast.core.record import Record
from holdfast.core.reports import Done, Failed
from holdfast.wire.exchange import (
    ANOTHER_LOG,
    COMMITTED,
    LEASE_LOST,
    REFUSED,
    Exchange,
    Verdict,
)

JOB_ID: Final = attrgetter("job_id")

COMMITS_KEPT: Final = 10_000

ReadRecord = Callable[[Position], Record]
"""A durable or pending record of the log: where a repeat is told from a late report."""

Told = tuple[tuple[Verdict, ...], tuple[LeaseId, ...]]
"""What is said of reports: those that were not simply accepted, and those that are kept."""


def foreign(exchange: Exchange) -> tuple[Verdict, ...]:
    """What is said of everything in an exchange that tells of another log."""
    told = [exchange.held]
    for reports in (exchange.started, exchange.done, exchange.failed, exchange.released):
        told.append(tuple(report.lease_id for report in reports))
    leases = dict.fromkeys(chain.from_iterable(told))
    return tuple(Verdict(lease_id, LEASE_LOST, ANOTHER_LOG) for lease_id in leases)


class Reporting:
    def __init__(
        self,
        coordinator: Coordinator,
        read: ReadRecord,
        paces: Paces,
        results: Results | None = None,
    ) -> None:
        self.blame = Blame(Settings().cordon_after)
        self.gangs = Gangs(coordinator.state)
        self._coordinator = coordinator
        self._read = read
        self._paces = paces
        self._results = results
        if results is not None:
            results.in_hand = self.gangs.stored
        # Members of gangs that committed while their workers waited for the others.
        self._committed: dict[LeaseId, None] = {}
        # The names of sinks that effects may be for.
        self.sinks: frozenset[str] = frozenset()

    def take(self, worker: Worker, exchange: Exchange) -> Told:
        """Each kind of report is a command of its own; the answers are its exceptions."""
        who, inc = worker.worker, worker.incarnation
        commands: list[c.Command] = []
        if exchange.started:
            commands.append(
                c.StartAttempts(worker=who, incarnation=inc, started=exchange.started)
            )
        plain, unfit = self._sort_out(exchange.done)
        whole: list[JobId] = []
        if plain:
            gangs = self._look_at(worker, plain)
            if gangs:
                plain, whole = self._keep(worker, plain, gangs)
            for done in portions(plain):
                commands.append(c.CommitTasks(worker=who, incarnation=inc, done=done))
        for failed in exchange.failed:
            roll = self._coordinator.dice.roll()
            commands.append(c.FailAttempt(worker=who, incarnation=inc, failed=failed, roll=roll))
        if exchange.released:
            commands.append(
                c.ReleaseAttempts(worker=who, incarnation=inc, released=exchange.released)
            )
        verdicts: list[Verdict] = []
        actor, request_id = f"worker:{who}", f"{inc}.{exchange.number}"
        for command in commands:
            decision = self._coordinator.execute(command, actor=actor, request_id=request_id)
            if isinstance(decision, Refused):
                verdicts.append(Verdict(LeaseId(0), REFUSED, decision.message))
            elif isinstance(decision.answer, tuple):
                verdicts.extend(self._verdicts(command, decision.answer))
        for failed in unfit:
            roll = self._coordinator.dice.roll()
            command = c.FailAttempt(worker=who, incarnation=inc, failed=failed, roll=roll)
            decision = self._coordinator.execute(command, actor=actor, request_id=request_id)
            lost = decision.answer if isinstance(decision, Accepted) else ()
            # What was committed under it before stays committed, whatever the settings say now.
            verdict = self._verdicts(command, lost[:1]) if isinstance(lost, tuple) else []
            verdicts.extend(verdict or [Verdict(failed.lease_id, REFUSED, failed.error)])
        for job_id in whole:
            self._commit_gang(job_id)
        for failed in exchange.failed:
            self.blame.failed(who, failed.job_id, failed.index)
        return tuple(verdicts), self.gangs.leases(exchange.done) if exchange.done else ()

    def _sort_out(self, done: tuple[Done, ...]) -> tuple[tuple[Done, ...], list[Failed]]:
        """What may be committed, and attempts that promise what nobody can keep, or whose result
        nobody could read."""
        # All at once: every commit of an ordinary task passes here.
        if not [report for report in done if report.owed or report.stored]:
            return done, []
        fit: list[Done] = []
        unfit: list[Failed] = []
        for report in done:
            job = self._coordinator.state.jobs.get(report.job_id)
            is_gang = job is not None and job.spec.placing.gang
            problem = self._store_problem(report) or promise_problem(
                report, self.sinks, is_gang=is_gang
            )
            if not problem:
                fit.append(report)
                continue
            why = f"its commit was refused: {problem}"
            unfit.append(
                Failed(
                    report.job_id, report.index, report.lease_id, report.ran_ms, "failed", why,
                    "", None,
                )
            )  # fmt: skip
        return tuple(fit), unfit

    def _store_problem(self, report: Done) -> str:
        stored, results = report.stored, self._results
        if stored is None or results is None or results.has(stored):
            return ""
        return "its result was stored, and is not in the store any more"

    def stop(self, lease: LeaseId) -> Verdict:
        """What a worker is told of a lease that it holds and that is over."""
        if lease in self._committed:
            return Verdict(lease, COMMITTED, "")
        return Verdict(lease, LEASE_LOST, "the attempt was ended")

    def _look_at(self, worker: Worker, done: tuple[Done, ...]) -> set[JobId]:
        """Note how long tasks took, and whether another worker had failed them; which of their jobs
        are gangs. Reports of one job follow each other: a run of them is one observation."""
        gangs: set[JobId] = set()
        for job_id, reports in groupby(done, JOB_ID):
            job = self._coordinator.state.jobs.get(job_id)
            if job is not None:
                run = list(reports)
                self._paces.note(job.spec, [report.ran_ms for report in run])
                if self.blame.has_suspects:
                    self._hold_against_others(worker, run)
                if job.spec.placing.gang:
                    gangs.add(job_id)
        return gangs

    def _keep(
        self, worker: Worker, done: tuple[Done, ...], gangs: set[JobId]
    ) -> tuple[tuple[Done, ...], list[JobId]]:
        """Keep what belongs to gangs. What is judged as any other report, since its lease is not
        the current one; and the gangs that were added to."""
        plain: list[Done] = []
        touched: dict[JobId, None] = {}
        for report in done:
            mine = c.Finished(worker.worker, worker.incarnation, report)
            if report.job_id in gangs and self.gangs.keep(mine):
                touched[report.job_id] = None
            else:
                plain.append(report)
        return tuple(plain), list(touched)

    def _commit_gang(self, job_id: JobId) -> None:
        """The last member has come: all of them in one record."""
        members = self.gangs.whole(job_id)
        if not members:
            return
        decision = self._coordinator.execute(
            c.CommitGang(job_id=job_id, members=members), actor=f"worker:{members[-1].worker}"
        )
        if isinstance(decision, Accepted) and decision.events:
            self._committed.update(dict.fromkeys(m.done.lease_id for m in members))
            while len(self._committed) > COMMITS_KEPT:
                del self._committed[next(iter(self._committed))]

    def _hold_against_others(self, worker: Worker, reports: list[Done]) -> None:
        """A worker that fails what goes well elsewhere is given nothing more."""
        for report in reports:
            culprit = self.blame.succeeded(worker.worker, report.job_id, report.index)
            if culprit is None or culprit in self._coordinator.state.cordoned:
                continue
            why = f"it failed {self.blame.most} tasks in a row that went well on other workers"
            self._coordinator.execute(
                c.CordonWorker(worker=culprit, reason=why), actor="scheduler", reason=why
            )

    def _verdicts(self, command: c.Command, lost: tuple[Lost, ...]) -> list[Verdict]:
        """What a worker is told of reports that did not count."""
        verdicts = [
            self._verdict(each) if each.settled else Verdict(each.lease_id, LEASE_LOST, each.why)
            for each in lost
        ]
        name, actor = type(command).__name__, f"worker:{getattr(command, 'worker', '')}"
        refused = [
            each
            for each, verdict in zip(lost, verdicts, strict=True)
            if verdict.verdict != COMMITTED
        ]
        for _ in range(len(lost) - len(refused)):
            self._coordinator.refusing.repeat(name, actor)
        if refused:
            self._coordinator.refusing.lost(name, refused, TARGETS[type(command)], actor)
        return verdicts

    def _verdict(self, lost: Lost) -> Verdict:
        """Only the log can tell a repeat of the commit from a late report of another attempt."""
        committed = b""
        for event in self._read(lost.settled).events:
            if isinstance(event, e.TasksCompleted) and event.job_id == lost.job_id:
                commits = event.commits
            elif isinstance(event, e.TaskCommitted) and event.job_id == lost.job_id:
                commits = (event.commit,)
            else:
                continue
            for commit in commits:
                if commit.index == lost.index:
                    if commit.lease_id == lost.lease_id:
                        return Verdict(lost.lease_id, COMMITTED, "")
                    committed = commit.result
        return Verdict(lost.lease_id, LEASE_LOST, lost.why, committed)
