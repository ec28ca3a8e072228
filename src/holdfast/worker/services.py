"""Services as tasks: commands that do not end, with ports of their own and somebody who looks
after them.

A run of services goes to the executor of commands with its ports put in; everything about
processes is there. What this adds is when such a process ends: told to, or past help, or because
this worker is to be left empty. Its endpoint goes first then: others are told that it is stopping,
and have a moment to hear of it, before the process is.
"""

from collections.abc import Callable
from typing import Final, Protocol

from msgspec import structs

from holdfast.core.ids import LeaseId
from holdfast.wire.exchange import Item, Lingering, Run
from holdfast.wire.service import SERVICE, BadPlan, decode_plan
from holdfast.wire.servicing import STOPPING
from holdfast.worker.attendant import Aside, Attendant
from holdfast.worker.executor import Executor, Harvest, Running, merge
from holdfast.worker.lanes import Outcome, failed
from holdfast.worker.ports import Ports
from holdfast.worker.replica import Replica
from holdfast.worker.servicebook import ServiceBook
from holdfast.worker.troubles import Trouble

FAREWELL_MS: Final = 1_000
"""How long a replica that is to end waits at most for others to hear of it."""


class Programs(Executor, Protocol):
    """The executor of commands, as far as services need more of it than the agent does."""

    @property
    def aside(self) -> Aside:
        """Have something run beside a replica."""

    def condemn(self, lease_id: LeaseId, why: str, grace_ms: int) -> None:
        """End an attempt that is past help; it fails, for this reason."""

    def holds(self, slot: int) -> bool: ...


class ServiceExecutor:
    """See `holdfast.worker.executor.Executor` for what each method owes. Whatever is no service
    passes straight through. `host` is where others reach the services of this worker."""

    def __init__(
        self,
        commands: Programs,
        attendant: Attendant,
        book: ServiceBook,
        clock_ms: Callable[[], int],
        host: str,
        ports: Ports | None = None,
    ) -> None:
        self.slots = commands.slots
        self._commands = commands
        self._attendant = attendant
        self._book = book
        self._clock_ms = clock_ms
        self._host = host
        self._ports = ports or Ports()
        self._replicas: dict[LeaseId, Replica] = {}
        # Those given up that may still run: they end without a report, and keep their ports until
        # they have.
        self._given_up: set[LeaseId] = set()
        # Those that are stopping and wait for others to hear of it, and until when.
        self._parting: dict[LeaseId, int] = {}
        self._harvest = Harvest([], [], [])
        self._is_draining = False
        attendant.aside = commands.aside

    @property
    def fatal(self) -> str | None:
        return self._commands.fatal

    @property
    def fatal_kind(self) -> str | None:
        return self._commands.fatal_kind

    def start(self) -> None:
        self._commands.start()

    def assign(self, run: Run) -> None:
        if run.kind == SERVICE:
            run = structs.replace(run, items=tuple(self._given(run)))
        if run.items:
            self._commands.assign(run)

    def harvest(self) -> Harvest:
        self._end_the_condemned()
        if (self._is_draining or self._book.is_drained) and self._replicas:
            self._part_from_all()
        self._end_those_that_were_heard_of()
        whole, self._harvest = self._harvest, Harvest([], [], [])
        merge(whole, self._commands.harvest())
        if self._replicas:
            self._forget_the_ended(whole)
        return whole

    def running(self) -> list[Running]:
        return self._commands.running()

    def recall(self, lease_ids: frozenset[LeaseId]) -> None:
        self._commands.recall(lease_ids)

    def stop(self, lease_id: LeaseId, grace_ms: int | None = None) -> None:
        replica = self._replicas.get(lease_id)
        if replica is not None:
            # Nobody asks how it stands: who wants it to end knows that it ends.
            self._attendant.leave(lease_id)
            self._book.forget(lease_id)
            self._part(lease_id, None)
            self._given_up.add(lease_id)
            grace_ms = replica.plan.grace_ms if grace_ms is None else grace_ms
        self._commands.stop(lease_id, grace_ms)

    def cut_off(self, lease_id: LeaseId, grace_ms: int) -> None:
        if lease_id in self._replicas:
            self._attendant.leave(lease_id)
        self._commands.cut_off(lease_id, grace_ms)

    def drain(self) -> None:
        """A service does not end by itself, so it is ended."""
        self._is_draining = True
        self._commands.drain()

    def answer(self, lease_id: LeaseId, why: str) -> None:
        self._commands.answer(lease_id, why)

    def hold_until(self, ends_ms: int, kill_ms: int) -> None:
        self._commands.hold_until(ends_ms, kill_ms)

    def holds(self, slot: int) -> bool:
        return self._commands.holds(slot)

    def lingering(self) -> tuple[Lingering, ...]:
        return self._commands.lingering()

    def close(self, grace_ms: int) -> Harvest:
        whole, self._harvest = self._harvest, Harvest([], [], [])
        self._attendant.close()
        merge(whole, self._commands.close(grace_ms))
        for lease_id in list(self._replicas):
            self._forget(lease_id)
        return whole

    # Beginning.

    def _given(self, run: Run) -> list[Item]:
        """The items of this run with their ports; those that cannot be carried out have failed."""
        given: list[Item] = []
        for item in run.items:
            try:
                plan = decode_plan(item.payload)
                ports = self._ports.give(plan.ports)
            except (BadPlan, OSError) as error:
                self._harvest.failed.append(failed((run, item), 0, Trouble(str(error), "", None)))
                continue
            replica = Replica(item.lease_id, plan, self._host, ports)
            self._replicas[item.lease_id] = replica
            self._attendant.expect(replica)
            given.append(structs.replace(item, payload=replica.command()))
        return given

    # Ending.

    def _end_the_condemned(self) -> None:
        while self._attendant.condemned:
            lease_id, why = self._attendant.condemned.popleft()
            replica = self._replicas.get(lease_id)
            if replica is not None:
                self._attendant.leave(lease_id)
                self._commands.condemn(lease_id, why, replica.plan.grace_ms)

    def _part_from_all(self) -> None:
        for running in self._commands.running():
            replica = self._replicas.get(running.lease_id)
            if replica is None or self._book.state_of(running.lease_id) == STOPPING:
                continue
            self._attendant.leave(running.lease_id)
            self._book.note(replica.news(STOPPING, "this worker is to be left"))
            self._part(running.lease_id, self._clock_ms() + FAREWELL_MS)

    def _part(self, lease_id: LeaseId, until_ms: int | None) -> None:
        if until_ms is None:
            self._parting.pop(lease_id, None)
        else:
            self._parting[lease_id] = until_ms
        self._book.due_ms = min(self._parting.values(), default=0)

    def _end_those_that_were_heard_of(self) -> None:
        for lease_id, until_ms in list(self._parting.items()):
            if self._book.is_said(lease_id) or self._clock_ms() >= until_ms:
                self._part(lease_id, None)
                self._commands.cut_off(lease_id, self._replicas[lease_id].plan.grace_ms)

    def _forget_the_ended(self, harvest: Harvest) -> None:
        reports: list[Outcome] = [*harvest.done, *harvest.failed, *harvest.released]
        for lease_id in {report.lease_id for report in reports} & self._replicas.keys():
            self._forget(lease_id)
        if self._given_up:
            for lease_id in self._given_up - {each.lease_id for each in self._commands.lingering()}:
                self._forget(lease_id)

    def _forget(self, lease_id: LeaseId) -> None:
        self._book.forget(lease_id)
        self._attendant.bury(lease_id)
        self._part(lease_id, None)
        self._given_up.discard(lease_id)
        self._ports.take_back(self._replicas.pop(lease_id).ports.values())
