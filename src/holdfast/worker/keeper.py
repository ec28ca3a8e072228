"""The keeper: the one thread that owns the children of a `ProcessExecutor`.

It sleeps until a child speaks or dies, the agent asks for something, or a time it set itself has
come. It never waits for a living child, and it starts them all: the kernel ties a child to the
thread that started it.
"""

import selectors
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from holdfast.core.ids import LeaseId
from holdfast.wire.exchange import Run
from holdfast.worker import frames
from holdfast.worker.fates import crash_report, ending
from holdfast.worker.frames import Broke, Ran
from holdfast.worker.garbled import blamed, fate, heard, unsent_on
from holdfast.worker.guarding import Guardian
from holdfast.worker.kept import KeptLane, balance, lanes_of
from holdfast.worker.lanes import Aside, Entry, Outcome, failed, released
from holdfast.worker.orders import Answer, Assign, Order, Recall, Retire, Stop
from holdfast.worker.warm import Start, WarmChild

BARREN_MAX: Final = 3


class Keeper:
    """Runs lanes of children. The agent's thread meets it in `tell`, `outcomes` and `lanes`."""

    def __init__(
        self,
        slots: int,
        wake: Callable[[], None],
        kill_grace_ms: int,
        guardian: Guardian,
        start: Start,
    ) -> None:
        self.lanes = lanes_of(slots)
        self.outcomes: deque[Outcome] = deque()
        self.asides: deque[Aside] = deque()
        # Kind and message of what keeps everything from running.
        self.doom: tuple[str, str] | None = None
        self._wake = wake
        self._kill_grace_s = kill_grace_ms / 1000
        self._start = start
        self._guardian = guardian
        self._orders: deque[Order] = deque()
        self._bell_in, self._bell_out = socket.socketpair()
        self._bell_in.setblocking(False)
        self._bell_out.setblocking(False)
        self._is_told = False
        # Held by whoever deals with lanes and children: the keeper, but for when it sleeps.
        self._dealing = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._bell_out, selectors.EVENT_READ, None)
        self._recalled: set[LeaseId] = set()
        self._unwanted: set[LeaseId] = set()
        self._has_news = False
        self._closing_at: float | None = None

    def tell(self, order: Order) -> None:
        """Leave an order for the keeper. Called by the agent's thread; never waits."""
        if isinstance(order, Assign) and self._gives(order.run, order.entries):
            return
        self._orders.append(order)
        self._ring()

    def _gives(self, run: Run, entries: list[Entry]) -> bool:
        """While the keeper sleeps, whoever brings work hands it to the child: a task need not wait
        until another thread has had its turn. False where the keeper is needed."""
        if not self._dealing.acquire(blocking=False):
            return False
        try:
            lane = self.lanes[run.slot]
            if self._orders or self._is_ending or not lane.gives(run, entries):
                return False
            if lane.wants_keeper:
                self._ring()
            return True
        finally:
            self._dealing.release()

    def _ring(self) -> None:
        if not self._is_told:
            self._is_told = True
            # A keeper that has ended hears nothing; its leases are given back without it.
            with suppress(OSError):
                self._bell_in.send(b"!")

    def keep(self) -> None:
        """The keeper's thread: until closed and every child is buried."""
        try:
            while not self._is_over():
                heard = self._selector.select(self._patience())
                with self._dealing:
                    self._turn(heard)
        except BaseException as error:
            # Ours, not the user's. Nothing can run without a keeper, and nobody may wait for it.
            self.doom = (type(error).__name__, f"the keeper of the processes failed: {error!r}")
            raise
        finally:
            for lane in self.lanes:
                if lane.child is not None:
                    lane.child.bury()
            self._selector.close()
            self._bell_in.close()
            self._bell_out.close()
            self._wake()

    def _turn(self, heard: list[tuple[selectors.SelectorKey, int]]) -> None:
        for key, events in heard:
            lane: KeptLane | None = key.data
            if lane is None:
                self._obey_all()
            elif lane.child is not None and key.fileobj in (lane.child.link, lane.child.pidfd):
                self._attend(lane, lane.child, key.fileobj, events)
        self._watch_the_clock()
        balance(self.lanes)
        for lane in self.lanes:
            self._bind(lane)
            lane.feed()
            self._mind_the_socket(lane)
        if self._has_news:
            self._has_news = False
            self._wake()

    @property
    def _is_ending(self) -> bool:
        return self._closing_at is not None or self.doom is not None

    # Orders of the agent.

    def _obey_all(self) -> None:
        self._bell_out.recv(64)
        # Lowered before looking: whoever comes later rings again.
        self._is_told = False
        while self._orders:
            order = self._orders.popleft()
            if isinstance(order, Assign):
                self._assign(order.run, order.entries)
            elif isinstance(order, Recall):
                self._recall(order.lease_ids)
            elif isinstance(order, Stop):
                self._stop(order, order.lease_id)
            elif isinstance(order, Retire):
                self.lanes[order.slot].is_retired = True
                self._has_news = True
            elif isinstance(order, Answer):
                for lane in self.lanes:
                    lane.answer(order.lease_id, order.why)
            else:
                self._closing_at = order.deadline
                self._let_go_of_everything()

    def _assign(self, run: Run, entries: list[Entry]) -> None:
        if self._is_ending:
            self._release(entries)
            return
        self.lanes[run.slot].line_up(run, entries)

    def _recall(self, lease_ids: frozenset[LeaseId]) -> None:
        for lane in self.lanes:
            self._release(lane.withdraw(lease_ids))
            inside = [lease_id for lease_id in lane.inside if lease_id in lease_ids]
            self._recalled.update(inside)
            lane.ask_back(inside)

    def _stop(self, order: Stop, lease_id: LeaseId) -> None:
        for lane in self.lanes:
            self._release(lane.withdraw(frozenset((lease_id,))))
            if lease_id in lane.inside:
                (self._recalled if order.is_wanted else self._unwanted).add(lease_id)
                if lane.slate.named()[0] == lease_id:
                    self._end(lane, order.grace_s)
                else:
                    lane.ask_back([lease_id])

    # What children say.

    def _attend(self, lane: KeptLane, child: WarmChild, source: object, events: int) -> None:
        if source == child.pidfd:
            self._bury(lane, child)
            return
        if events & selectors.EVENT_WRITE:
            child.push()
        if events & selectors.EVENT_READ:
            is_open = child.receive()
            if not (self._heed(lane, child) and is_open):
                # A child without its socket is of no use, even where it still lives.
                self._bury(lane, child)

    def _heed(self, lane: KeptLane, child: WarmChild) -> bool:
        return heard(child, lambda kind, body: self._take_word(lane, kind, body))

    def _take_word(self, lane: KeptLane, kind: int, body: bytes) -> None:
        if kind == frames.OUTCOMES:
            outcomes = frames.decode_outcomes(body)
            lane.learn(outcomes)
            self._settle(lane, outcomes)
        elif kind == frames.READY:
            lane.is_ready = True
        elif kind == frames.WITHDRAWN:
            withdrawn = frames.decode_withdrawn(body)
            self._take_back(lane, withdrawn.asked, withdrawn.taken)
        elif kind in frames.ASIDES:
            self.asides.append(lane.hear(kind, body))
            self._has_news = True
        elif kind == frames.DOOM:
            doom = frames.decode_doom(body)
            self._give_back(lane, doom.lease_id)
            self._despair(doom.kind, doom.message)

    def _settle(self, lane: KeptLane, outcomes: list[Ran | Broke]) -> None:
        """Pass on how tasks ended. What a death made the child say twice is heard once."""
        for outcome in outcomes:
            entry = lane.inside.pop(outcome.lease_id, None)
            if entry is None:
                continue
            lane.has_proved_itself()
            self._forget(lane, outcome.lease_id)
            lane.note_output(entry, outcome.printed)
            self.outcomes.append(lane.report_of(entry, outcome))
        self._has_news = True

    def _take_back(self, lane: KeptLane, asked: list[LeaseId], taken: list[LeaseId]) -> None:
        for lease_id in reversed(taken):
            self._give_back(lane, lease_id)
        named = lane.slate.named()[0]
        if named in self._unwanted and named in asked and named in lane.inside:
            self._end(lane)

    def _give_back(self, lane: KeptLane, lease_id: LeaseId) -> None:
        """A task comes back unstarted: to the agent if it is done with it, else to the queue."""
        entry = lane.inside.pop(lease_id, None)
        if entry is None:
            return
        if self._is_ending or lease_id in self._recalled or lease_id in self._unwanted:
            self._release([entry])
        else:
            lane.queue.appendleft(entry)
        self._forget(lane, lease_id)

    # Life and death.

    def _spawn(self, lane: KeptLane) -> None:
        bundle = lane.wanted_bundle
        try:
            child = self._start(lane.slate, lane.crash, bundle, lane.outputs)
        except OSError as error:
            self._count_barren(lane, f"could not be started: {error}")
            return
        lane.take_over(child, bundle)
        lane.is_bound = lane.must_end
        self._guardian.guard(child.pid, must_end=lane.must_end)
        self._selector.register(child.link, selectors.EVENT_READ, lane)
        if child.pidfd is not None:
            self._selector.register(child.pidfd, selectors.EVENT_READ, lane)

    def _bind(self, lane: KeptLane) -> None:
        """Before the child is given anything: say whether it may outlive its leases."""
        if lane.child is not None and lane.is_bound != lane.must_end:
            lane.is_bound = lane.must_end
            self._guardian.guard(lane.child.pid, must_end=lane.must_end)

    def _end(self, lane: KeptLane, grace_s: float | None = None) -> None:
        """Ask the child and all it has started to end; the clock sees to those that do not."""
        if lane.child is not None and lane.kill_at is None:
            grace_s = self._kill_grace_s if grace_s is None else grace_s
            lane.kill_at = time.monotonic() + grace_s
            lane.child.signal(signal.SIGTERM)

    def _bury(self, lane: KeptLane, child: WarmChild) -> None:
        self._selector.unregister(child.link)
        if child.pidfd is not None:
            self._selector.unregister(child.pidfd)
        # Whatever lives on in its group could still write; dead, it has said its last word.
        child.signal(signal.SIGKILL)
        child.receive()
        code = child.bury()
        self._guardian.forget(child.pid)
        self._heed(lane, child)
        self._settle(lane, unsent_on(lane.slate))
        self._judge(lane, code, is_garbled=child.is_garbled)
        for lease_id in reversed(list(lane.inside)):
            self._give_back(lane, lease_id)
        was_of_use = lane.has_run or lane.is_leaving or lane.kill_at is not None
        had_work = bool(lane.queue)
        was_ready = lane.is_ready
        lane.child, lane.kill_at = None, None
        lane.asked_back.clear()
        lane.slate.wipe()
        if not was_of_use and (had_work or not was_ready):
            self._count_barren(lane, ending(code))

    def _judge(self, lane: KeptLane, code: int, *, is_garbled: bool) -> None:
        """Name the task that was running, if one was, and say what became of it."""
        since_ns, crash = lane.slate.named()[1], crash_report(lane.crash)
        entry = blamed(lane.slate, lane.inside, is_garbled=is_garbled)
        lane.note_last_output(entry)
        if entry is None:
            return
        lane.has_proved_itself()
        if lane.kill_at is not None:
            # We ended it ourselves: nobody's fault, and where it was unwanted, nobody asks.
            self.outcomes.append(released(entry, started=True))
        else:
            since_ns = time.monotonic_ns() if is_garbled else since_ns
            ran_ms = (time.monotonic_ns() - since_ns) // 1_000_000
            reason, trouble = fate(code, crash, is_garbled=is_garbled)
            self.outcomes.append(failed(entry, ran_ms, trouble, reason))
        self._forget(lane, entry[1].lease_id)
        self._has_news = True

    def _count_barren(self, lane: KeptLane, how: str) -> None:
        if lane.count_barren(time.monotonic()) >= BARREN_MAX:
            self._despair(
                "ChildrenCannotStart",
                f"processes for tasks cannot be started: {BARREN_MAX} in a row were of no use; "
                f"the last one {how}",
            )

    def _despair(self, kind: str, message: str) -> None:
        if self.doom is None:
            self.doom = (kind, message)
        self._has_news = True
        self._let_go_of_everything()

    # Housekeeping.

    def _let_go_of_everything(self) -> None:
        for lane in self.lanes:
            self._release(list(lane.queue))
            lane.queue.clear()
            lane.ask_back(list(lane.inside))

    def _watch_the_clock(self) -> None:
        now = time.monotonic()
        for lane in self.lanes:
            if lane.child is not None:
                if lane.must_change:
                    lane.let_leave(now + self._kill_grace_s)
                self._hasten(lane, lane.child, now)
            elif self._lacks_child(lane) and now >= lane.spawn_at:
                self._spawn(lane)

    def _hasten(self, lane: KeptLane, child: WarmChild, now: float) -> None:
        if lane.kill_at is not None and now >= lane.kill_at:
            child.signal(signal.SIGKILL)
            lane.kill_at = now + 60
        if self._closing_at is None or lane.kill_at is not None:
            return
        if lane.inside:
            if now >= self._closing_at:
                self._end(lane)
        elif not lane.is_leaving:
            lane.is_leaving = True
            child.send(frames.LEAVE)
        elif now >= self._closing_at + self._kill_grace_s:
            self._end(lane)

    def _patience(self) -> float | None:
        """How long the keeper may sleep: until the nearest time it has set itself."""
        times = [lane.kill_at for lane in self.lanes if lane.kill_at is not None]
        times += [lane.spawn_at for lane in self.lanes if self._lacks_child(lane)]
        if self._closing_at is not None:
            for lane in self.lanes:
                if lane.child is not None and lane.kill_at is None:
                    leaving = self._kill_grace_s if lane.is_leaving else 0.0
                    times.append(self._closing_at + leaving)
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _lacks_child(self, lane: KeptLane) -> bool:
        """A lane that was used once is kept warm; one that never was costs nothing."""
        return lane.child is None and lane.job is not None and not self._is_ending

    def _mind_the_socket(self, lane: KeptLane) -> None:
        if lane.child is None:
            return
        wanted = lane.child.wanted_events
        if self._selector.get_key(lane.child.link).events != wanted:
            self._selector.modify(lane.child.link, wanted, lane)

    def _release(self, entries: list[Entry]) -> None:
        if entries:
            self.outcomes.extend(released(entry, started=False) for entry in entries)
            self._has_news = True

    def _forget(self, lane: KeptLane, lease_id: LeaseId) -> None:
        self._recalled.discard(lease_id)
        self._unwanted.discard(lease_id)
        lane.forget(lease_id)

    def _is_over(self) -> bool:
        return self._closing_at is not None and all(lane.child is None for lane in self.lanes)
