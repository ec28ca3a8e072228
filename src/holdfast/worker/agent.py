"""The worker's side of the exchange. A step function: it owns no thread and sends nothing itself.

Whoever drives it calls `step`, carries the exchange it returns to the coordinator, and brings the
reply back to `receive`. Reports are kept and repeated until a reply names their exchange. One
exchange is under way at a time; only one that reported nothing is overtaken by a newer one.

Where leases end by time, the agent knows how long it may act for them. Past that it starts
nothing; what runs goes on, unless its job asked to be stopped, and is reported when somebody
listens again.
"""

from holdfast.core.ids import LeaseId, WorkerId
from holdfast.core.spec import STOP
from holdfast.wire.exchange import (
    LEASE_LOST,
    Capacity,
    Done,
    Exchange,
    Failed,
    Hello,
    Released,
    Reply,
    Run,
    Started,
    is_empty,
)  # fmt: skip
from holdfast.worker.authority import SIGNS_A_TERM, Authority
from holdfast.worker.bounds import too_large, within_bounds
from holdfast.worker.early import EarlyCommits
from holdfast.worker.executor import Executor, Harvest, Running
from holdfast.worker.parcels import Parcels
from holdfast.worker.servicebook import ServiceBook
from holdfast.worker.starting import Starting

__all__ = ["SIGNS_A_TERM", "START_REPORT_MS", "Agent", "is_empty"]

START_REPORT_MS = 20
"""An attempt that runs longer than this is reported as started; shorter ones report their end."""


class Agent:
    """`hello` is who this is, for those who have to be told. `report_bytes` bounds the results in
    one exchange, where a transport has a bound; zero for none. `draining`: it is leaving;
    `is_drained`: an operator wants it to take nothing more, and may change their mind."""

    def __init__(
        self,
        worker: WorkerId,
        incarnation: int,
        executor: Executor,
        capacity: Capacity,
        *,
        hello: Hello | None = None,
        report_bytes: int = 0,
        parcels: Parcels | None = None,
        services: ServiceBook | None = None,
    ) -> None:
        self.worker = worker
        self.incarnation = incarnation
        self.executor = executor
        self.draining = False
        self.is_drained = False
        # How many results came too late: their leases had been lost.
        self.refused = 0
        self._is_leaving = False
        self.hello = hello
        self._capacity = capacity
        self._report_bytes = report_bytes
        self.parcels = parcels or Parcels()
        self.services = services or ServiceBook()
        self._is_known = hello is None
        self._must_speak = False
        self._authority = Authority()
        self._has_lapsed = False
        self._number = 0
        self._seen = 0
        self._log_id, self._epoch = "", 0
        self._under_way: Exchange | None = None
        self._held: dict[LeaseId, Run] = {}
        self._told: set[LeaseId] = set()
        self._starting = Starting()
        self._done: list[Done] = []
        # Results that the coordinator keeps until the rest of their gang has come.
        self._kept: dict[LeaseId, Done] = {}
        self._failed: list[Failed] = []
        self._released: list[Released] = []
        self._early = EarlyCommits(executor, self.parcels)

    @property
    def seen(self) -> int:
        """The number of the last exchange that was answered."""
        return self._seen

    @property
    def term_ms(self) -> int:
        """How long leases are given for here, once that is known; zero for no limit."""
        return self._authority.term_ms

    def step(self, now_ms: int) -> Exchange | None:
        """What to send now, if anything. Reports ride along with whatever is sent."""
        # First, so that nothing begins in the place of something that has just ended.
        self._mind_authority(now_ms)
        self._gather(now_ms)
        waiting = self._under_way
        if waiting is not None and not is_empty(waiting):
            return None
        started = self._started(now_ms)
        if waiting is not None:
            reports = self._done or self._failed or self._released or started
            has_reports = bool(reports or self._early.progress) or self.parcels.has_news()
            has_news = has_reports or self.services.has_news()
            if not has_news and not self._has_changed(waiting, now_ms):
                return None
        self._number += 1
        held = self._held
        for failed in self._failed:
            held.pop(failed.lease_id, None)
        for released in self._released:
            held.pop(released.lease_id, None)
        if self._told:
            self._told &= held.keys()
        self._must_speak = False
        self._authority.sent(self._number, now_ms)
        done = within_bounds(self._done, self._report_bytes)
        # What has a result that does not fit this time is still ours.
        unsent = [report.lease_id for report in self._done[len(done) :]]
        lingering = tuple(it for it in self.executor.lingering() if it.lease_id not in unsent)
        news, samples, partitions = self.services.tell(now_ms, everything=not self._is_known)
        self._under_way = Exchange(
            self.worker,
            self.incarnation,
            self._number,
            self._seen,
            self._capacity,
            tuple(started),
            tuple(done),
            tuple(self._failed),
            tuple(self._released),
            (*held, *unsent, *self._kept),
            len({attempt.slot for attempt in lingering}),
            self._takes_nothing(),
            None if self._is_known else self.hello,
            lingering,
            self._is_leaving,
            *self.parcels.tell(now_ms),
            tuple(self._early.progress.values()),
            self.parcels.asking,
            *(self._log_id, self._epoch),
            news,
            samples,
            partitions,
        )
        return self._under_way

    def speak_up(self) -> None:
        """Have the next step say something, though there is nothing new to say."""
        self._must_speak = True

    def say_goodbye(self) -> None:
        """Have the next step say that nothing runs here any more, and nothing will."""
        self._must_speak = self._must_speak or not self._is_leaving
        self._is_leaving = True

    def drain(self) -> None:
        """Take nothing more and give back what has not begun; what runs may end."""
        self.draining = True
        self.executor.drain()
        self._give_back()
        self.parcels.give_back()

    def receive(self, reply: Reply, now_ms: int = 0) -> None:
        """The reports of that exchange are settled; what came with the answer is taken up.

        An answer counts once, and never after a later one or one of a later coordinator: that was
        told by then that what is granted in it did not arrive. One that comes so late that its
        leases may be over brings nothing to start.
        """
        sent = self._under_way
        if sent is None or not self._seen < reply.number <= sent.number:
            return
        if reply.epoch < self._epoch and reply.log_id in ("", self._log_id):
            # Of a coordinator that is gone: the next one was told that this has not come.
            self._under_way = None if reply.number == sent.number else sent
            return
        # Whoever was told before is gone. It need not ask who we are: a late message may have told.
        is_another = reply.who or reply.epoch != self._epoch
        former = dict(self._kept) if is_another else {}
        self._seen, self._epoch = reply.number, reply.epoch
        self._is_known = self.hello is None or not reply.who
        term_ms = max((run.term_ms for run in reply.runs), default=0)
        self._authority.answered(reply.number, reply.good_ms, term_ms)
        self._has_lapsed = self._has_lapsed and self._authority.has_ended(now_ms)
        if reply.number == sent.number:
            lost = {verdict.lease_id for verdict in reply.verdicts if verdict.verdict == LEASE_LOST}
            self.refused += sum(report.lease_id in lost for report in sent.done) if lost else 0
            self._under_way = None
            self._done = self._done[len(sent.done) :]
            if kept := frozenset(reply.kept):
                self._kept.update({d.lease_id: d for d in sent.done if d.lease_id in kept})
            self._failed = self._failed[len(sent.failed) :]
            self._released = self._released[len(sent.released) :]
            self.parcels.answered(sent, reply, self._kept.values())
            self._early.heard(sent, reply.verdicts, now_ms)
            self.services.answered(sent)
        if former:
            # Whoever kept them is gone as well: the one that answers has to hear of them again.
            self._done = [*self._done, *former.values()]
            for lease_id in former:
                del self._kept[lease_id]
        for stop in (*reply.verdicts, *reply.stops):
            self._drop(stop.lease_id)
        if reply.drain and not self.is_drained:
            self._give_back()
            self.parcels.give_back()
        self.is_drained = self.services.is_drained = reply.drain
        if reply.log_id not in ("", self._log_id):
            self._leave_log(reply.log_id, now_ms)
        if reply.recalls:
            self.executor.recall(frozenset(reply.recalls))
        if self._authority.term_ms:
            self._say_how_long(reply.runs)
        self.parcels.take_up(reply.parcels, may_start=not self._takes_nothing())
        may_start = not (self._takes_nothing() or self._authority.has_ended(now_ms))
        for run in self._starting.durable(reply.number) if may_start else ():
            self.executor.assign(run)
        for run in reply.runs:
            self._take_up(run, may_start=may_start)
        if reply.scrapes:
            self.services.scrape(lease_id for lease_id in reply.scrapes if lease_id in self._held)

    def _leave_log(self, other: str, now_ms: int) -> None:
        """Another log answers, which knows nothing of what we have: all of it is lost."""
        former, self._log_id = self._log_id, other
        if former:
            self.refused += len(self._done)
            for lease_id in (*self._held, *self._kept):
                self._drop(lease_id)
            self._early.leave_log(now_ms)
            self.parcels.leave_log(self._done)
            self._done, self._failed, self._released = [], [], []

    def make_smaller(self, told: Exchange) -> None:
        """That exchange was too large to be taken: say less at a time, and where one result alone
        is too large, its attempt has failed."""
        if self._under_way is not told or not told.done:
            return
        self._under_way = None
        whole = sum(len(report.result) for report in told.done)
        if len(told.done) > 1:
            self._report_bytes = max(1, whole // 2)
            return
        report = self._done.pop(0)
        self._early.refuse(report.lease_id, "its result is larger than the server takes")
        self._failed.append(too_large(report, whole))

    def next_due(self, now_ms: int) -> int:
        """When `step` has something to do that no event announces; zero for never.

        A start announces itself to nobody, so while any is outstanding it is looked for.
        """
        dues = [due for running in self.executor.running() if (due := running.due_ms())]
        dues += self._early.dues()
        if len(self._held) > len(self._told):
            dues.append(now_ms + START_REPORT_MS)
        dues += (self.parcels.next_due(), self.services.due_ms)
        waiting = self._under_way
        if waiting is None or is_empty(waiting):
            dues.append(self.parcels.sign_due())
        authority = self._authority
        if (self._held or self._kept) and authority.term_ms:
            if waiting is None or is_empty(waiting):
                dues.append(authority.sign_due())
            # A result that is kept begins nothing and is ended by nobody here.
            if self._held and not self._has_lapsed:
                dues.append(authority.ends_at)
        return min(filter(None, dues), default=0)

    def unstarted(self) -> frozenset[LeaseId]:
        """What could still be taken back without stopping anything."""
        running = frozenset(running.lease_id for running in self.executor.running())
        return frozenset(self._held) - running - self._starting.leases()

    def is_idle(self) -> bool:
        """Nothing is held, nothing waits to be told."""
        is_busy = self._held or self._kept or self.has_unsaid()
        return not is_busy and self.parcels.is_idle()

    def has_unsaid(self) -> bool:
        """Whether ends of attempts wait to be told, or to be heard."""
        return bool(self._done or self._failed or self._released)

    def finish(self, grace_ms: int) -> None:
        """Stop starting, wait for what runs, and have everything that is left reported."""
        self._absorb(self.executor.close(grace_ms))
        self._released += self._starting.give_back()
        self.parcels.finish(grace_ms)

    def _has_changed(self, told: Exchange, now_ms: int) -> bool:
        """Whether there is something to say beside reports: a lane came free or was lost, we are
        leaving, or it is time for a sign of life, which renews leases that end by time."""
        if self._takes_nothing() != told.draining or self.executor.lingering() != told.lingering:
            return True
        if self._must_speak or (not self._is_known and told.hello is None):
            return True
        if 0 < self.parcels.sign_due() <= now_ms:
            return True
        sign_due = self._authority.sign_due()
        return bool((self._held or self._kept) and sign_due) and now_ms >= sign_due

    def _say_how_long(self, runs: tuple[Run, ...]) -> None:
        """Have those stopped in time that must not outlive their leases, though we be frozen."""
        if any(run.on_disconnect == STOP for run in (*runs, *self._held.values())):
            ends_at = self._authority.ends_at
            self.executor.hold_until(ends_at, ends_at + self._authority.margin_ms // 2)

    def _mind_authority(self, now_ms: int) -> None:
        """Past its time nothing may begin any more: what has not begun is taken back at once, and
        what must not outlive its lease is ended while the margin lasts."""
        authority = self._authority
        if self._has_lapsed or not self._held or not authority.has_ended(now_ms):
            return
        self._has_lapsed = True
        self._give_back()
        for running in self.executor.running():
            run = self._held.get(running.lease_id)
            if run is not None and run.on_disconnect == STOP:
                # It is given back when it has ended: until then nobody else may have it.
                self.executor.cut_off(running.lease_id, authority.margin_ms // 2)

    def _takes_nothing(self) -> bool:
        return self.draining or self.is_drained

    def _give_back(self) -> None:
        """What has not begun does not begin here."""
        self.executor.recall(self.unstarted())
        self._released += self._starting.give_back()

    def _take_up(self, run: Run, *, may_start: bool) -> None:
        self._held.update(dict.fromkeys([item.lease_id for item in run.items], run))
        if not may_start:
            self._released.extend(
                Released(run.job_id, item.index, item.lease_id, False) for item in run.items
            )
        elif run.alone:
            self._starting.add(run)
        else:
            self.executor.assign(run)

    def _started(self, now_ms: int) -> list[Started]:
        started: list[Started] = []
        for running in self.executor.running():
            lease_id = running.lease_id
            ran_ms = max(0, now_ms - running.since_ms)
            if ran_ms < START_REPORT_MS or lease_id in self._told or lease_id not in self._held:
                continue
            self._told.add(lease_id)
            started.append(Started(running.job_id, running.index, lease_id, ran_ms))
        for start in self._starting.tell(self._number + 1):
            self._told.add(start.lease_id)
            started.append(start)
        return started

    def _gather(self, now_ms: int) -> None:
        self.parcels.gather(now_ms)
        self._absorb(self.executor.harvest())
        self._early.mind(now_ms)
        for running in self.executor.running():
            trouble = running.trouble_at(now_ms)
            if trouble:
                self._time_out(running, now_ms, trouble)

    def _absorb(self, harvest: Harvest) -> None:
        held = self._held
        let_go = held.pop
        self._done += [report for report in harvest.done if let_go(report.lease_id, None)]
        self._failed += [report for report in harvest.failed if report.lease_id in held]
        self._released += [report for report in harvest.released if report.lease_id in held]
        if harvest.early or harvest.left or harvest.progress:
            self._done += self._early.absorb(harvest, held)

    def _time_out(self, running: Running, now_ms: int, trouble: str) -> None:
        self.executor.stop(running.lease_id)
        self._absorb(self.executor.harvest())
        if any(done.lease_id == running.lease_id for done in self._done):
            return  # It ended while it was being stopped: the result stands.
        ran_ms, told = now_ms - running.since_ms, ("timed_out", trouble, "", None)
        self._failed.append(
            Failed(running.job_id, running.index, running.lease_id, ran_ms, *told)
        )

    def _drop(self, lease_id: LeaseId) -> None:
        """The attempt has lost its right to run, or is over; nobody wants to hear of it."""
        if self._kept.pop(lease_id, None) is not None:
            return
        if self._held.pop(lease_id, None) is None:
            return
        self._told.discard(lease_id)
        if not self._starting.drop(lease_id):
            self.executor.stop(lease_id)
