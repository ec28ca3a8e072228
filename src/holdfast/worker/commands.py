"""Commands as tasks: programs in sessions of their own, started and ended by a warden process.

Lanes are queues here; whatever runs is in the warden's hands. A command that ended well has its
exit code, zero, as its result.
"""

import os
import shutil
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import msgspec

from holdfast.core.ids import LeaseId
from holdfast.wire.exchange import Done, Lingering, Run
from holdfast.wire.service import SERVICE
from holdfast.worker.captures import STREAMS, CaptureFile
from holdfast.worker.errands import Begun, Ended, Errand, Forget, Guard, Halt, Launch, Until
from holdfast.worker.executor import Harvest, Running, merge
from holdfast.worker.fates import fate_of_command
from holdfast.worker.lanes import Entry, Leases, Outcome, failed, released
from holdfast.worker.masking import Mask
from holdfast.worker.outbox import Outlet
from holdfast.worker.surroundings import Prepared, Surroundings, Unprepared, redacted
from holdfast.worker.troubles import ERROR_BYTES_MAX, Trouble, bounded
from holdfast.worker.wardenlink import FAREWELL_S, Gone, WardenLink

GRACE_MS: Final = 5_000
SUCCESS: Final = msgspec.msgpack.encode(0)


class CommandLane:
    """One slot: what waits, and what runs since when."""

    def __init__(self) -> None:
        self.queue: deque[Entry] = deque()
        self.current: Entry | None = None
        self.prepared: Prepared | None = None
        self.since_ms = 0
        self.printed = 0
        # Why it is being ended, where that is its own doing.
        self.condemned = ""

    @property
    def lease(self) -> LeaseId | None:
        return None if self.current is None else self.current[1].lease_id

    def prints_more(self) -> bool:
        """Whether it has printed something since this was asked last."""
        before = self.printed
        self.printed = 0 if self.prepared is None else self.prepared.printed_bytes()
        return self.printed > before


class Companion(Protocol):
    """Who looks after services while they run. None of this waits."""

    def prepared(self, prepared: Prepared) -> None:
        """This service is about to be started."""

    def begun(self, begun: Begun) -> None:
        """It is this process. Told by the thread that listens to the warden."""

    def ended_aside(self, ended: Ended) -> None:
        """What was started with `aside` has ended. Told by the same thread."""


class CommandExecutor:
    """See `holdfast.worker.executor.Executor` for what each method owes. `lock` is a descriptor
    that stays open until the last command has ended; `cgroup` a control group whose parts bound the
    memory of commands. Without, it is their addresses that are bounded. `companion` is told about
    those commands that are services."""

    fatal: str | None = None
    fatal_kind: str | None = None

    def __init__(
        self,
        slots: int,
        wake: Callable[[], None],
        clock_ms: Callable[[], int],
        surroundings: Surroundings,
        *,
        grace_ms: int = GRACE_MS,
        lock: int | None = None,
        outlet: Outlet | None = None,
        cgroup: Path | None = None,
        companion: Companion | None = None,
    ) -> None:
        self.slots = slots
        self._companion = companion
        self._outlet = outlet
        self._wake = wake
        self._clock_ms = clock_ms
        self._surroundings = surroundings
        self._grace_ms = grace_ms
        self._lock = lock
        self._cgroup = cgroup
        self._leases = Leases()
        self._lanes = [CommandLane() for _ in range(slots)]
        self._outcomes: list[Outcome] = []
        self._link: WardenLink | None = None
        self._until: Until | None = None
        # Filled by the thread that listens.
        self._heard: deque[Ended | Gone] = deque()
        self._folders: dict[LeaseId, Path] = {}
        self._news = threading.Event()
        self._guards: dict[int, Guard] = {}
        self._is_closed = False

    def start(self) -> None:
        """Have the warden there before there is anything to guard."""
        self._warden()

    def guard(self, pid: int, *, must_end: bool) -> None:
        """A group of somebody else's, to be ended as commands are when we cannot."""
        self._guards[pid] = errand = Guard(pid, must_end)
        link = self._link
        if link is not None:
            link.send(errand)

    def forget(self, pid: int) -> None:
        self._guards.pop(pid, None)
        link = self._link
        if link is not None:
            link.send(Forget(pid))

    def assign(self, run: Run) -> None:
        entries = self._leases.admit(run)
        if self._is_closed:
            self._outcomes.extend(released(entry, started=False) for entry in entries)
            return
        lane = self._lanes[run.slot]
        lane.queue.extend(entries)
        self._advance(lane)

    def harvest(self) -> Harvest:
        while self._heard:
            self._take_in(self._heard.popleft())
        for lane in self._lanes:
            self._advance(lane)
        outcomes, self._outcomes = self._outcomes, []
        return self._leases.settle(outcomes)

    def running(self) -> list[Running]:
        found: list[Running] = []
        for lane in self._lanes:
            if lane.current is None or self._leases.is_given_up(lane.current[1].lease_id):
                continue
            run, item = lane.current
            if run.stall_ms and lane.prints_more():
                # What it prints is all that a command tells of itself.
                self._leases.note_life(item.lease_id, self._clock_ms())
            found.append(self._leases.running(lane.current, lane.since_ms))
        return found

    def recall(self, lease_ids: frozenset[LeaseId]) -> None:
        for lane in self._lanes:
            back = [entry for entry in lane.queue if entry[1].lease_id in lease_ids]
            if back:
                lane.queue = deque(entry for entry in lane.queue if entry not in back)
                self._outcomes.extend(released(entry, started=False) for entry in back)
                self._wake()

    def stop(self, lease_id: LeaseId, grace_ms: int | None = None) -> None:
        if not self._leases.give_up(lease_id):
            return
        self.recall(frozenset((lease_id,)))
        if any(lane.lease == lease_id for lane in self._lanes):
            self._halt(lease_id, self._grace_ms if grace_ms is None else grace_ms)

    def cut_off(self, lease_id: LeaseId, grace_ms: int) -> None:
        self.recall(frozenset((lease_id,)))
        self._halt(lease_id, grace_ms)

    def condemn(self, lease_id: LeaseId, why: str, grace_ms: int) -> None:
        """End a service that is past help: it has failed, and `why`."""
        for lane in self._lanes:
            if lane.lease == lease_id and not lane.condemned:
                lane.condemned = why
                self._halt(lease_id, grace_ms)

    def aside(self, errand: Launch | Halt) -> None:
        """Have the warden run something beside a service, under a number below zero. May be called
        from any thread; what becomes of it is the companion's to hear."""
        link = self._link
        if link is not None:
            link.send(errand)

    def drain(self) -> None:
        """A command is asked when it is ended."""

    def answer(self, lease_id: LeaseId, why: str) -> None:
        """A command commits when it has ended."""

    def hold_until(self, ends_ms: int, kill_ms: int) -> None:
        offset = time.monotonic_ns() // 1_000_000 - self._clock_ms()
        self._until = Until(ends_ms + offset, kill_ms + offset)
        if self._link is not None:
            self._link.send(self._until)

    def holds(self, slot: int) -> bool:
        """Whether something waits or runs in this slot, given up or not."""
        lane = self._lanes[slot]
        return bool(lane.queue) or lane.current is not None

    def lingering(self) -> tuple[Lingering, ...]:
        return self._leases.lingering({})

    def close(self, grace_ms: int) -> Harvest:
        self._is_closed = True
        for lane in self._lanes:
            self.recall(frozenset(entry[1].lease_id for entry in lane.queue))
        self._wait(grace_ms / 1_000)
        for lane in self._lanes:
            if lane.lease is not None:
                self._halt(lane.lease, self._grace_ms)
        link = self._link
        if link is not None:
            self._wait(self._grace_ms / 1_000 + FAREWELL_S)
            # Whoever started those is ending them, each in its own time.
            for pid in list(self._guards):
                self.forget(pid)
            link.close()
        last = self.harvest()
        merge(last, self._leases.gather_last(deque(), deque()))
        return last

    # Beginning and ending.

    def _advance(self, lane: CommandLane) -> None:
        while lane.queue and lane.current is None and not self._is_closed:
            entry = lane.queue.popleft()
            try:
                prepared = self._surroundings.prepare(*entry)
                self._folders[entry[1].lease_id] = prepared.folder
                self._open_outlet(entry, prepared)
                if self._companion is not None and prepared.launch.is_service:
                    self._companion.prepared(prepared)
                self._warden().send(prepared.launch)
            except (Unprepared, OSError) as error:
                folder = self._folders.pop(entry[1].lease_id, None)
                if folder is not None:
                    shutil.rmtree(folder, ignore_errors=True)
                self._outcomes.append(failed(entry, 0, Trouble(str(error), "", None)))
                # It is collected by whoever is stepping now, or by the next step.
                self._wake()
                continue
            lane.current, lane.prepared, lane.since_ms = entry, prepared, self._clock_ms()
            lane.printed, lane.condemned = 0, ""

    def _open_outlet(self, entry: Entry, prepared: Prepared) -> None:
        if self._outlet is None:
            return
        # Nobody hears of what it prints then, which is no reason not to run it.
        with suppress(OSError):
            self._outlet.began(entry, _outputs(prepared), Mask(prepared.secrets))

    def _warden(self) -> WardenLink:
        if self._link is None:
            self._link = WardenLink(self._hear, self._lock, self._cgroup)
            # A warden that takes the place of another learns what that one knew.
            known: list[Errand] = [] if self._until is None else [self._until]
            known += self._guards.copy().values()
            for errand in known:
                self._link.send(errand)
        return self._link

    def _halt(self, lease_id: LeaseId, grace_ms: int) -> None:
        if self._link is not None:
            self._link.send(Halt(lease_id, grace_ms))

    def _hear(self, news: Begun | Ended | Gone) -> None:
        """Called by the thread that listens. Clearing away what a command left may take long, and
        is done here, where nobody waits."""
        if isinstance(news, Begun):
            if self._companion is not None:
                self._companion.begun(news)
            return
        if isinstance(news, Ended) and news.lease_id < 0:
            if self._companion is not None:
                self._companion.ended_aside(news)
            return
        over = [news.lease_id] if isinstance(news, Ended) else list(self._folders)
        for lease_id in over:
            folder = self._folders.pop(lease_id, None)
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        self._heard.append(news)
        self._news.set()
        self._wake()

    def _wait(self, seconds: float) -> None:
        """Until nothing runs, or so long."""
        give_up_at = time.monotonic() + seconds
        while any(lane.current is not None for lane in self._lanes):
            self._news.clear()
            while self._heard:
                self._take_in(self._heard.popleft())
            left = give_up_at - time.monotonic()
            if left <= 0 or not any(lane.current is not None for lane in self._lanes):
                return
            self._news.wait(left)

    def _take_in(self, news: Ended | Gone) -> None:
        if isinstance(news, Ended):
            for lane in self._lanes:
                if lane.lease == news.lease_id:
                    self._settle(lane, news)
            return
        if news.link is not self._link:
            return
        self._link = None
        for lane in self._lanes:
            if lane.current is not None:
                code = -signal.SIGKILL
                ran_ms = self._clock_ms() - lane.since_ms
                self._settle(lane, Ended(lane.current[1].lease_id, code, ran_ms, False, "", ""))
        news.link.close()
        if self._guards and news.link.has_lived and not self._is_closed:
            self._warden()

    def _settle(self, lane: CommandLane, ended: Ended) -> None:
        entry, prepared = lane.current, lane.prepared
        if entry is None or prepared is None:
            return
        lane.current = lane.prepared = None
        run, item = entry
        if self._outlet is not None:
            self._outlet.ended(item.lease_id)
        if ended.code == 0 and run.kind != SERVICE:
            self._outcomes.append(
                Done(run.job_id, item.index, item.lease_id, ended.ran_ms, SUCCESS)
            )
        elif ended.halted and not lane.condemned:
            # We ended it ourselves: nobody's fault, and where it was unwanted, nobody asks.
            self._outcomes.append(released(entry, started=True))
        else:
            fate = fate_of_command(ended, prepared.program, run.memory_bytes)
            if lane.condemned:
                fate = "failed", "\n".join(filter(None, (lane.condemned, ended.last_words)))
            told = bounded(redacted(fate[1], prepared.secrets), ERROR_BYTES_MAX)
            trouble = Trouble(told, "", ended.code)
            self._outcomes.append(failed(entry, ended.ran_ms, trouble, fate[0]))


def _outputs(prepared: Prepared) -> dict[str, CaptureFile]:
    """The files a command prints into, which the warden will open too."""
    folder = Path(os.fsdecode(prepared.launch.outputs))
    for stream in STREAMS:
        (folder / stream).touch(mode=0o600)
    return {stream: CaptureFile.at(folder / stream) for stream in STREAMS}
