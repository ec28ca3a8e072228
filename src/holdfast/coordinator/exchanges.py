"""The coordinator's side of the exchange: reports in, verdicts, stops and grants out.

An exchange that reports something, or finds something to do, is answered when that is durable; one
with nothing to say is parked until there is. Nothing is polled.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.deliveries import Deliveries
from holdfast.coordinator.leftovers import removable
from holdfast.coordinator.placement import Placement
from holdfast.coordinator.registry import Registry
from holdfast.coordinator.reporting import ReadRecord, Reporting, foreign
from holdfast.coordinator.results import Results
from holdfast.coordinator.seats import SendReply, Worker
from holdfast.coordinator.servicing import Servicing
from holdfast.coordinator.settings import Settings
from holdfast.core import commands as c
from holdfast.core.decision import Accepted
from holdfast.core.ids import NEVER, Instant, LeaseId, WorkerId
from holdfast.core.task import TaskState
from holdfast.wire.exchange import Exchange, Released, Reply, Verdict, is_empty
from holdfast.wire.sinks import AnySink

MOST_PARTS = 8
"""So many cut rounds in a row, and those who have only work to hear of are answered in between."""
NONE: Final[frozenset[LeaseId]] = frozenset()


def _drop(error: Exception) -> None:
    """A worker that gets no answer asks again; there is nobody else to tell."""


class Exchanges:
    """`term_ms` zero: workers inside this process, whose leases do not end by time. `results` is
    where large results must be before they are referred to."""

    def __init__(
        self,
        coordinator: Coordinator,
        read: ReadRecord,
        *,
        term_ms: int,
        results: Results | None = None,
    ) -> None:
        self.registry = Registry(coordinator, term_ms)
        self.workers = self.registry.workers
        self.placement = Placement(coordinator, self.workers, self.tell)
        self.deliveries = Deliveries(coordinator, self.registry, read)
        self.servicing = Servicing(coordinator, self.workers, self.tell)
        self.granting = True
        # Why nothing is given out for now, where the disk is short of something.
        self.withheld = ""
        # Whether what is owed is dealt out though nothing new is granted.
        self.settling = False
        # Those who wait for an answer and may have to be told something though there is no work:
        # a thousand others may idle beside them, and must cost nothing in a turn.
        self._alert: dict[WorkerId, Worker] = {}
        self._parts = 0
        self._coordinator = coordinator
        self._reporting = Reporting(coordinator, read, self.placement.paces, results)

    def adjust(self, settings: Settings) -> None:
        """Have other settings hold from now on."""
        self.placement.aging.step_ms = settings.aging_ms
        self._reporting.blame.most = settings.cordon_after
        self.adjust_sinks(settings.sinks)

    def adjust_sinks(self, sinks: Mapping[str, AnySink]) -> None:
        self._reporting.sinks = frozenset(sinks)
        self.placement.sinks = tuple(sinks)
        self.deliveries.adjust(sinks)

    def take(self, exchange: Exchange, send: SendReply) -> None:
        """One message of a worker. A repeated number gets the former answer again."""
        worker = self.registry.admit(exchange)
        if isinstance(worker, str):
            refusal = Reply(exchange.number, (), (), (), (), refused=worker)
            self._coordinator.answer(lambda: send(refusal), _drop)
            return
        if exchange.number <= worker.number:
            self._repeat(worker, exchange, send)
            return
        if worker.send is not None:
            self._reply(worker)
        if exchange.log_id not in ("", self._coordinator.state.log_id):
            self._disown(worker, exchange, send)
            return
        if worker.says_news(exchange):
            self.registry.changed.add(worker.worker)
        worker.hear(exchange, self._coordinator.state.epoch)
        worker.heard_at = worker.seen_at
        worker.send = send
        here = (worker.worker, worker.incarnation)
        reported = not is_empty(exchange)
        holds = exchange.held or exchange.carrying or here in self._coordinator.state.holders
        if reported or holds or worker.has_left or self.deliveries.concern(here):
            renewed = self._judge(worker, exchange)
        else:
            # Nothing is held here by anybody's account, so there is nothing to be judged.
            worker.held, worker.verdicts, worker.kept, worker.stops = NONE, (), (), ()
            renewed = False
        # A worker we do not know is answered at once, the first time, and so asked who it is.
        stranger = bool(worker.term_ms) and worker.hello is None and worker.last_reply is None
        owed = worker.verdicts or worker.stops or worker.recalls or self._owes_drain(worker)
        # A renewal is told at once: a worker that does not hear of it must stop starting.
        worker.has_news = bool(reported or owed or stranger or renewed or worker.has_left)
        self._mind(worker)

    def _disown(self, worker: Worker, exchange: Exchange, send: SendReply) -> None:
        """Everything it tells is of another log: none of it is ours to judge. It hears so at once,
        and is given nothing before it has let go of it."""
        worker.hear(exchange, self._coordinator.state.epoch)
        worker.heard_at = worker.seen_at
        worker.send = send
        worker.held, worker.kept, worker.verdicts = NONE, (), foreign(exchange)
        self._coordinator.refusals["lease_lost"] += len(worker.verdicts)
        self._reply(worker)

    def _judge(self, worker: Worker, exchange: Exchange) -> bool:
        """Take in what happened to what a worker holds; whether its leases were renewed."""
        self._expire(worker)
        worker.verdicts, worker.kept = self._reporting.take(worker, exchange)
        # A result that is kept is held on to: its lease goes on until its gang is decided.
        worker.held = frozenset(exchange.held).union(worker.kept)
        self._miss(worker)
        self.deliveries.hear(worker, exchange)
        worker.note_progress(exchange.progress)
        self.servicing.take(worker, exchange)
        if exchange.leftovers:
            worker.removable = removable(self._coordinator.state, exchange.leftovers)
        if worker.has_left:
            self.registry.lose(worker.worker, "it left")
        worker.stops = self._stops(worker)
        return self._renew(worker)

    def unpark(self, exchange: Exchange) -> None:
        """Answer a parked exchange with nothing: it has waited long enough."""
        worker = self._parked(exchange)
        if worker is not None:
            self._reply(worker)

    def forsake(self, exchange: Exchange) -> None:
        """Nobody listens for this answer any more; whatever comes up waits for the next one."""
        worker = self._parked(exchange)
        if worker is not None:
            worker.send = None

    def unpark_all(self) -> None:
        for worker in self.workers.values():
            if worker.send is not None:
                self._reply(worker)

    def _parked(self, exchange: Exchange) -> Worker | None:
        worker = self.workers.get(exchange.worker)
        if worker is None or worker.send is None:
            return None
        here = (worker.incarnation, worker.number)
        return worker if here == (exchange.incarnation, exchange.number) else None

    def round(self) -> None:
        """Give out what can be given, then answer everyone who has something to hear."""
        coordinator = self._coordinator
        state, now = coordinator.state, coordinator.now()
        # First, and always: a sleeper whose time has come must not keep the engine awake.
        state.ready.wake(state.jobs, now)
        # What is owed goes before what is new.
        parcels = {} if state.suspended else self.deliveries.deal(now, self._may_deliver)
        for name, owed in parcels.items():
            worker = self.workers[name]
            worker.parcels = (*worker.parcels, *owed)
            self.tell(worker)
        has_work = bool(state.ready.queues)
        parked = self._everyone() if has_work else self._alerted()
        for worker in [w for w in parked if not (w.stops or w.is_clean(state))]:
            worker.stops = self._stops(worker)
            if worker.stops or worker.is_doubtful(state):
                worker.has_news = True
        open_to = [w for w in parked if self.is_open(w)] if has_work else []
        self.placement.is_cut = False
        runs = self.placement.give_out(open_to, self._about_to_ask()) if open_to else {}
        if len(self.workers) > 1 and not runs:
            self._recall()
        for name, given in runs.items():
            worker = self.workers[name]
            worker.owe(given)
            self._mind(worker)
        # Whoever was given something may be given more when the round goes on, and would have to
        # ask again for that.
        self._parts = self._parts + 1 if self.placement.is_cut else 0
        is_over = self._parts % MOST_PARTS == 0
        for worker in parked if has_work else self._alerted():
            if worker.has_news or (worker.runs and is_over):
                self._reply(worker)

    def is_at_rest(self) -> bool:
        """Whether a round would do nothing: nothing waits, nobody holds anything, and there is
        nothing to tell anybody, nor to write."""
        state, registry = self._coordinator.state, self.registry
        if state.ready.queues or state.holders or registry.changed or self._alert:
            return False
        if any(place.ready for place in state.debts.places.values()):
            return False
        return self._coordinator.has_nothing_pending()

    def prune(self, now: Instant) -> None:
        """Let go of what is long gone."""
        self.registry.prune(now)
        self.deliveries.prune()
        self.servicing.sweep()
        self._reporting.gangs.sweep()

    def tell(self, worker: Worker) -> None:
        """Have this worker answered in the next round: there is something it must hear."""
        worker.has_news = True
        self._mind(worker)

    def _mind(self, worker: Worker) -> None:
        if worker.has_news or worker.held or worker.runs:
            self._alert[worker.worker] = worker

    def _everyone(self) -> list[Worker]:
        return [worker for worker in self.workers.values() if worker.send is not None]

    def _alerted(self) -> list[Worker]:
        """Who was answered since, has left or was replaced is minded again when it asks again."""
        known = self.workers
        waiting = [w for w in self._alert.values() if w.send and known.get(w.worker) is w]
        if len(waiting) < len(self._alert):
            self._alert = {worker.worker: worker for worker in waiting}
        return waiting

    def drain(self, worker: Worker, *, is_drained: bool) -> None:
        """Have a worker told that it shall take nothing more, or that it may again."""
        worker.drained = is_drained
        if self._owes_drain(worker):
            self.tell(worker)

    def _must_drain(self, worker: Worker) -> bool:
        return worker.drained and worker.worker in self._coordinator.state.cordoned

    def _owes_drain(self, worker: Worker) -> bool:
        """Whether it was told otherwise, or nothing, the last time."""
        told = worker.last_reply is not None and worker.last_reply.drain
        return told != self._must_drain(worker)

    def withhold(self, why: str) -> None:
        """Give nothing out for now, or go on where there is no reason any more."""
        self.withheld = why

    def is_open(self, worker: Worker) -> bool:
        """Whether it may be given work."""
        state = self._coordinator.state
        cordoned = worker.worker in state.cordoned
        idle = worker.draining or worker.has_left or cordoned or state.suspended
        return self.granting and not self.withheld and not idle

    def _may_deliver(self, worker: Worker) -> bool:
        """A cordon is about new work. What is owed can perhaps be done by this host alone."""
        return (self.granting or self.settling) and not (
            worker.draining or worker.has_left or self._must_drain(worker)
        )

    def _about_to_ask(self) -> Iterator[Worker]:
        """Those that may be given work and wait for no answer at this moment."""
        for worker in self.workers.values():
            if worker.send is None and self.is_open(worker) and self.registry.is_alive(worker):
                yield worker

    def _recall(self) -> None:
        """One worker idles while tasks queue in another's slots: ask back half of them, latest
        first. Only the worker can say that a task has not started; nothing ends before it does."""
        state = self._coordinator.state
        holders = [holder.worker for holder in state.holders.values() if holder.leases]
        at_work = [self.workers[name] for name in holders if name in self.workers]
        busiest = max(at_work, key=lambda worker: worker.queued(state), default=None)
        queued = 0 if busiest is None else busiest.queued(state)
        if busiest is None or queued == 0:
            return
        if not any(w.is_idle(state) and self.is_open(w) for w in self._everyone()):
            return
        leases = state.holder(busiest.worker, busiest.incarnation).leases
        waiting = [task for task in leases.values() if task.state is TaskState.LEASED]
        wanted = [task.lease_id for task in waiting[::-1] if not task.alone][: -(-queued // 2)]
        self.placement.recall(busiest, wanted)

    def _repeat(self, worker: Worker, exchange: Exchange, send: SendReply) -> None:
        """The worker asks again: the answer goes where it asked last, and not before its time."""
        if exchange.number < worker.number:
            return
        reply = worker.last_reply
        if reply is not None and reply.number == exchange.number:
            self._coordinator.answer(lambda: send(reply), _drop)
        else:
            # There is no answer yet: it waits here now.
            worker.send = send
            self._mind(worker)

    def _expire(self, worker: Worker) -> None:
        """A lease past its time ends before anything its holder says is judged."""
        holder = self._coordinator.state.holders.get((worker.worker, worker.incarnation))
        if holder is not None and holder.due(self._coordinator.now()):
            self._coordinator.execute(
                c.ExpireLeases(worker=worker.worker, incarnation=worker.incarnation),
                actor="clock",
            )

    def _miss(self, worker: Worker) -> None:
        """A grant that was received and is not held never started: it ends undelivered."""
        holder = self._coordinator.state.holders.get((worker.worker, worker.incarnation))
        if holder is None:
            return
        missing = holder.leases.keys() - worker.held
        for _, leases in worker.unseen:
            missing -= leases
        if not missing:
            return
        strays = [holder.leases[lease_id] for lease_id in sorted(missing)]
        self._coordinator.execute(
            c.ReleaseAttempts(
                worker=worker.worker,
                incarnation=worker.incarnation,
                released=tuple(
                    Released(task.job_id, task.index, task.lease_id, False)
                    for task in strays
                    if not task.started_at
                ),
                reason="undelivered",
            ),
            actor="exchange",
        )

    def _stops(self, worker: Worker) -> tuple[Verdict, ...]:
        """What the worker still holds and no longer has a right to."""
        holder = self._coordinator.state.holders.get((worker.worker, worker.incarnation))
        gone = worker.held - (holder.leases.keys() if holder is not None else frozenset())
        return tuple(self._reporting.stop(lease) for lease in sorted(gone))

    def _renew(self, worker: Worker) -> bool:
        """One record for all a worker holds, at half the term; heartbeats write nothing."""
        coordinator = self._coordinator
        holder = coordinator.state.holders.get((worker.worker, worker.incarnation))
        if holder is None or not worker.term_ms:
            return False
        half = coordinator.now() + worker.term_ms // 2
        if holder.soonest <= half:
            # It is a lower bound: leases that ended may have left it behind.
            holder.find_soonest()
        if holder.soonest == NEVER or holder.soonest > half:
            return False
        # What the worker does not hold is left to run out.
        known = worker.known()
        decision = coordinator.execute(
            c.ExtendLeases(
                worker=worker.worker,
                incarnation=worker.incarnation,
                term_ms=worker.term_ms,
                exceptions=tuple(sorted(holder.leases.keys() - known)),
            ),
            actor=f"worker:{worker.worker}",
        )
        return isinstance(decision, Accepted) and bool(decision.events)

    def _good_ms(self, worker: Worker) -> int:
        """How long after its exchange came the soonest lease ends that the worker knows of."""
        holder = self._coordinator.state.holders.get((worker.worker, worker.incarnation))
        if holder is None or not worker.term_ms:
            return 0
        soonest = holder.soonest
        if soonest <= self._coordinator.now() + worker.term_ms // 2:
            # It may be the bound of a lease that ended, or of one the worker does not hold.
            known = worker.known()
            held = (task.expires_at for lease, task in holder.leases.items() if lease in known)
            soonest = min((end for end in held if end != NEVER), default=NEVER)
        return 0 if soonest == NEVER else max(0, soonest - worker.heard_at)

    def _reply(self, worker: Worker) -> None:
        send = worker.send
        who = worker.hello is None and bool(worker.term_ms)
        reply = Reply(
            worker.number, worker.verdicts, worker.stops, worker.recalls, worker.runs, who=who,
            good_ms=self._good_ms(worker), drain=self._must_drain(worker), kept=worker.kept,
            parcels=worker.parcels, removable=worker.removable,
            log_id=self._coordinator.state.log_id, epoch=self._coordinator.state.epoch,
            scrapes=self.servicing.orders(worker),
        )  # fmt: skip
        worker.send, worker.verdicts, worker.stops, worker.recalls = None, (), (), ()
        worker.kept, worker.runs, worker.parcels, worker.removable = (), (), (), ()
        worker.has_news = False
        worker.last_reply = reply
        worker.answered_at = self._coordinator.now()
        if send is not None:
            out = send
            self._coordinator.answer(lambda: out(reply), _drop)
