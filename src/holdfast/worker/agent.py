"""The worker's side of the exchange. A step function: it owns no thread and sends nothing itself.

Whoever drives it calls `step`, carries the exchange it returns to the coordinator, and brings the
reply back to `receive`. Reports are kept and repeated until a reply names their exchange. One
exchange is under way at a time; only one that reported nothing is overtaken by a newer one.
"""

from holdfast.core.ids import LeaseId, WorkerId
from holdfast.wire.exchange import Capacity, Done, Exchange, Failed, Released, Reply, Run, Started
from holdfast.worker.executor import Executor, Harvest, Running

START_REPORT_MS = 20
"""An attempt that runs longer than this is reported as started; shorter ones report their end."""

SIGNS_A_TERM = 3
"""How often in a term a worker with nothing to report shows that it is alive."""


class Agent:
    def __init__(
        self, worker: WorkerId, incarnation: int, executor: Executor, capacity: Capacity
    ) -> None:
        self.worker = worker
        self.incarnation = incarnation
        self.executor = executor
        self.draining = False
        self._capacity = capacity
        self._number = 0
        self._seen = 0
        self._under_way: Exchange | None = None
        self._held: dict[LeaseId, Run] = {}
        self._told: set[LeaseId] = set()
        # Runs that wait until their start is durable, by lease, and the exchange that told it.
        self._starting: dict[LeaseId, tuple[Run, int]] = {}
        self._done: list[Done] = []
        self._failed: list[Failed] = []
        self._released: list[Released] = []
        self._sent_ms = 0
        self._term_ms = 0

    def step(self, now_ms: int) -> Exchange | None:
        """What to send now, if anything. Reports ride along with whatever is sent."""
        self._gather(now_ms)
        waiting = self._under_way
        if waiting is not None and not _is_empty(waiting):
            return None
        started = self._started(now_ms)
        if waiting is not None:
            has_reports = bool(self._done or self._failed or self._released or started)
            if not has_reports and not self._has_changed(waiting, now_ms):
                return None
        self._number += 1
        held = self._held
        for failed in self._failed:
            held.pop(failed.lease_id, None)
        for released in self._released:
            held.pop(released.lease_id, None)
        if self._told:
            self._told &= held.keys()
        self._sent_ms = now_ms
        self._under_way = Exchange(
            self.worker,
            self.incarnation,
            self._number,
            self._seen,
            self._capacity,
            tuple(started),
            tuple(self._done),
            tuple(self._failed),
            tuple(self._released),
            tuple(held),
            self.executor.occupied(),
            self.draining,
        )
        return self._under_way

    def receive(self, reply: Reply) -> None:
        """The reports of that exchange are settled; what came with the answer is taken up.

        An answer counts once, and never after a later one: the coordinator was told by then that
        what it granted in it did not arrive.
        """
        sent = self._under_way
        if sent is None or not self._seen < reply.number <= sent.number:
            return
        self._seen = reply.number
        if reply.number == sent.number:
            self._under_way = None
            self._done = self._done[len(sent.done) :]
            self._failed = self._failed[len(sent.failed) :]
            self._released = self._released[len(sent.released) :]
        for stop in (*reply.verdicts, *reply.stops):
            self._drop(stop.lease_id)
        if reply.recalls:
            self.executor.recall(frozenset(reply.recalls))
        self._begin_durable_starts(reply.number)
        for run in reply.runs:
            self._take_up(run)

    def next_due(self, now_ms: int) -> int:
        """When `step` has something to do that no event announces; zero for never.

        A start announces itself to nobody, so while any is outstanding it is looked for.
        """
        dues = [
            running.since_ms + running.timeout_ms
            for running in self.executor.running()
            if running.timeout_ms
        ]
        if len(self._held) > len(self._told):
            dues.append(now_ms + START_REPORT_MS)
        waiting = self._under_way
        if self._held and self._term_ms and (waiting is None or _is_empty(waiting)):
            dues.append(self._sent_ms + self._term_ms // SIGNS_A_TERM)
        return min(dues, default=0)

    def unstarted(self) -> frozenset[LeaseId]:
        """What could still be taken back without stopping anything."""
        running = frozenset(running.lease_id for running in self.executor.running())
        return frozenset(self._held) - running - frozenset(self._starting)

    def is_idle(self) -> bool:
        """Nothing is held, nothing waits to be told."""
        return not (self._held or self._done or self._failed or self._released)

    def finish(self, grace_ms: int) -> None:
        """Stop starting, wait for what runs, and have everything that is left reported."""
        self._absorb(self.executor.close(grace_ms))
        for lease_id, (run, _) in list(self._starting.items()):
            index = run.items[0].index
            self._released.append(Released(run.job_id, index, lease_id, False))
        self._starting.clear()

    def _has_changed(self, told: Exchange, now_ms: int) -> bool:
        """Whether there is something to say beside reports: a lane came free or was lost, we are
        leaving, or it is time for a sign of life, which renews leases that end by time."""
        if self.draining != told.draining or self.executor.occupied() != told.occupied:
            return True
        sign = self._term_ms // SIGNS_A_TERM
        return bool(self._held and sign) and now_ms >= self._sent_ms + sign

    def _take_up(self, run: Run) -> None:
        self._term_ms = run.term_ms
        self._held.update(dict.fromkeys([item.lease_id for item in run.items], run))
        if self.draining:
            self._released.extend(
                Released(run.job_id, item.index, item.lease_id, False) for item in run.items
            )
        elif run.alone:
            for item in run.items:
                self._starting[item.lease_id] = (run, 0)
        else:
            self.executor.assign(run)

    def _begin_durable_starts(self, answered: int) -> None:
        """A start that was told in an answered exchange is durable: now it may run."""
        for lease_id, (run, told) in list(self._starting.items()):
            if told and told <= answered:
                del self._starting[lease_id]
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
        for lease_id, (run, told) in list(self._starting.items()):
            if not told:
                self._starting[lease_id] = (run, self._number + 1)
                self._told.add(lease_id)
                started.append(Started(run.job_id, run.items[0].index, lease_id, 0))
        return started

    def _gather(self, now_ms: int) -> None:
        self._absorb(self.executor.harvest())
        for running in self.executor.running():
            if running.timeout_ms and now_ms - running.since_ms >= running.timeout_ms:
                self._time_out(running, now_ms)

    def _absorb(self, harvest: Harvest) -> None:
        held = self._held
        let_go = held.pop
        self._done += [report for report in harvest.done if let_go(report.lease_id, None)]
        self._failed += [report for report in harvest.failed if report.lease_id in held]
        self._released += [report for report in harvest.released if report.lease_id in held]

    def _time_out(self, running: Running, now_ms: int) -> None:
        self.executor.stop(running.lease_id)
        self._absorb(self.executor.harvest())
        if any(done.lease_id == running.lease_id for done in self._done):
            return  # It ended while it was being stopped: the result stands.
        self._failed.append(
            Failed(
                running.job_id,
                running.index,
                running.lease_id,
                now_ms - running.since_ms,
                "timed_out",
                f"it took longer than its timeout of {running.timeout_ms / 1_000:g} s",
                "",
                None,
            )
        )

    def _drop(self, lease_id: LeaseId) -> None:
        """The attempt has lost its right to run; nobody wants to hear of it."""
        if self._held.pop(lease_id, None) is None:
            return
        self._told.discard(lease_id)
        if self._starting.pop(lease_id, None) is None:
            self.executor.stop(lease_id)


def _is_empty(exchange: Exchange) -> bool:
    return not (exchange.started or exchange.done or exchange.failed or exchange.released)
