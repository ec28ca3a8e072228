"""Functions and commands in the same slots: one executor over both.

A slot runs one thing at a time, whatever its kind. Work of one kind waits while the slot holds work
of the other, and a slot that is given to a command takes nothing more from its neighbours.
"""

import threading
from collections import deque
from typing import Final, Protocol

from msgspec import structs

from holdfast.core.ids import LeaseId
from holdfast.wire.exchange import Item, Lingering, Released, Run
from holdfast.wire.service import SERVICE
from holdfast.worker.executor import Executor, Harvest, Running, merge
from holdfast.worker.lanes import failed
from holdfast.worker.troubles import Trouble

COMMAND: Final = "command"
PROGRAMS: Final = frozenset({COMMAND, SERVICE})
PICKLE: Final = "pickle"
FUNCTIONS: Final = frozenset({"function", "array", PICKLE})


class Functions(Executor, Protocol):
    """An executor whose lanes share work, and can be asked not to."""

    def retire(self, slot: int) -> None: ...

    def is_free(self, slot: int) -> bool: ...


class Commands(Executor, Protocol):
    """An executor whose lanes keep to themselves."""

    def holds(self, slot: int) -> bool: ...


class Slot:
    """What waits for its kind's turn, and which kind was let in last."""

    def __init__(self) -> None:
        self.waiting: deque[Run] = deque()
        self.is_for_commands = False
        self.is_retiring = False


class MixedExecutor:
    """See `holdfast.worker.executor.Executor` for what each method owes. Without `pickle`, tasks
    whose code is a pickle fail: reading one runs whatever it names."""

    def __init__(self, functions: Functions, commands: Commands, *, pickle: bool) -> None:
        self.slots = functions.slots
        self._functions = functions
        self._commands = commands
        self._pickle = pickle
        self._slots = [Slot() for _ in range(self.slots)]
        self._harvest = Harvest([], [], [])

    @property
    def fatal(self) -> str | None:
        return self._functions.fatal or self._commands.fatal

    @property
    def fatal_kind(self) -> str | None:
        return self._functions.fatal_kind or self._commands.fatal_kind

    def start(self) -> None:
        self._functions.start()
        self._commands.start()

    def assign(self, run: Run) -> None:
        refusal = self._refusal(run)
        if refusal:
            trouble = Trouble(refusal, "", None)
            self._harvest.failed.extend(failed((run, item), 0, trouble) for item in run.items)
            return
        self._slots[run.slot].waiting.append(run)
        self._advance(run.slot)

    def harvest(self) -> Harvest:
        whole, self._harvest = self._harvest, Harvest([], [], [])
        for part in (self._functions.harvest(), self._commands.harvest()):
            merge(whole, part)
        for slot in range(self.slots):
            self._advance(slot)
        return whole

    def running(self) -> list[Running]:
        return [*self._functions.running(), *self._commands.running()]

    def recall(self, lease_ids: frozenset[LeaseId]) -> None:
        self._harvest.released.extend(
            Released(run.job_id, item.index, item.lease_id, False)
            for run, item in self._withdraw(lease_ids)
        )
        self._functions.recall(lease_ids)
        self._commands.recall(lease_ids)

    def stop(self, lease_id: LeaseId, grace_ms: int | None = None) -> None:
        if not self._withdraw(frozenset((lease_id,))):
            self._functions.stop(lease_id, grace_ms)
            self._commands.stop(lease_id, grace_ms)

    def cut_off(self, lease_id: LeaseId, grace_ms: int) -> None:
        self._functions.cut_off(lease_id, grace_ms)
        self._commands.cut_off(lease_id, grace_ms)

    def drain(self) -> None:
        self._functions.drain()
        self._commands.drain()

    def answer(self, lease_id: LeaseId, why: str) -> None:
        self._functions.answer(lease_id, why)

    def hold_until(self, ends_ms: int, kill_ms: int) -> None:
        self._functions.hold_until(ends_ms, kill_ms)
        self._commands.hold_until(ends_ms, kill_ms)

    def lingering(self) -> tuple[Lingering, ...]:
        return (*self._functions.lingering(), *self._commands.lingering())

    def close(self, grace_ms: int) -> Harvest:
        """Both at once: each may have to wait for what it ends."""
        self.recall(
            frozenset(
                item.lease_id for slot in self._slots for run in slot.waiting for item in run.items
            )
        )
        ended: list[Harvest] = []
        closing = threading.Thread(target=lambda: ended.append(self._commands.close(grace_ms)))
        closing.start()
        ended.append(self._functions.close(grace_ms))
        closing.join()
        whole, self._harvest = self._harvest, Harvest([], [], [])
        for part in ended:
            merge(whole, part)
        return whole

    def _refusal(self, run: Run) -> str:
        """Why nothing of this run can be tried here; empty where it can."""
        if run.kind == PICKLE and not self._pickle:
            return "this worker runs no pickled code; start one with --pickle, or name a function"
        if run.kind not in PROGRAMS and run.kind not in FUNCTIONS:
            return f"this worker does not know how to run a {run.kind!r}"
        return ""

    def _advance(self, number: int) -> None:
        """Let in what waits, as far as the slot is free for its kind."""
        slot = self._slots[number]
        while slot.waiting:
            if slot.waiting[0].kind not in PROGRAMS:
                if self._commands.holds(number):
                    return
                slot.is_for_commands = slot.is_retiring = False
                self._functions.assign(slot.waiting.popleft())
                continue
            if not slot.is_for_commands:
                if not slot.is_retiring:
                    slot.is_retiring = True
                    self._functions.retire(number)
                if not self._functions.is_free(number):
                    return
                slot.is_for_commands = True
            self._commands.assign(slot.waiting.popleft())

    def _withdraw(self, lease_ids: frozenset[LeaseId]) -> list[tuple[Run, Item]]:
        found: list[tuple[Run, Item]] = []
        for slot in self._slots:
            if not slot.waiting:
                continue
            kept: deque[Run] = deque()
            for run in slot.waiting:
                found += [(run, item) for item in run.items if item.lease_id in lease_ids]
                left = tuple(item for item in run.items if item.lease_id not in lease_ids)
                if left:
                    kept.append(structs.replace(run, items=left))
            slot.waiting = kept
        return found
