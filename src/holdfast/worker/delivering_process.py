"""Deliveries in a process of their own: what hangs is killed, what crashes takes nothing along."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

from holdfast.wire.delivery import Bounced, DebtName, Parcel
from holdfast.worker import delivery_frames as frames
from holdfast.worker.delivering import GIVEN_BACK, InHand, Place, Settled, given_up
from holdfast.worker.delivery_child import BOOT, read_frames
from holdfast.worker.delivery_frames import Setup
from holdfast.worker.fates import ending
from holdfast.worker.frames import encode, frame
from holdfast.worker.guarding import Guardian, NoGuardian
from holdfast.worker.sinks.outlet import untried

LAST_BREATH_S: Final = 0.5
STDERR: Final = 2


class _Child:
    """One life of the delivery process. Two threads speak with it, so that nobody else waits."""

    def __init__(self, own_places: tuple[str, ...], folder: str, heard: "Heard") -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            entries: list[object] = [*sys.path]
            path = "\n".join(entry or folder for entry in entries if isinstance(entry, str))
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", BOOT, str(os.getpid()), str(theirs.fileno()), path],
                    stdin=subprocess.DEVNULL,
                    # What functions print is for people; data never goes this way.
                    stdout=STDERR,
                    pass_fds=(theirs.fileno(),),
                    cwd=folder,
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        self.pid = self._process.pid
        self._link = ours
        self._heard = heard
        self._unsent: SimpleQueue[bytes | None] = SimpleQueue()
        for work in (self._send, self._listen):
            threading.Thread(target=work, name="holdfast-post", daemon=True).start()
        argv = [os.fsencode(str(word)) for word in sys.argv]
        self.say(frames.SETUP, encode(Setup(argv, own_places)))

    def say(self, kind: int, body: bytes = b"") -> None:
        self._unsent.put(frame(kind, body))

    def end(self) -> int:
        """Kill what is left of it and take the exit status: negative for a signal."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.kill()
        code = self._process.wait()
        self._unsent.put(None)
        with suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)
        return code

    def wait(self, seconds: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, seconds))

    def _send(self) -> None:
        with suppress(OSError):
            while (message := self._unsent.get()) is not None:
                self._link.sendall(message)

    def _listen(self) -> None:
        with suppress(OSError), self._link.makefile("rb") as stream:
            for kind, body in read_frames(stream):
                self._heard(self, kind, body)
        self._link.close()
        self._heard(self, 0, b"")


Heard = Callable[[_Child, int, bytes], None]
"""Told each frame of a child, in a thread of its own; kind zero is its end."""


class ProcessDeliverer:
    """See `holdfast.worker.delivering.Deliverer` for what each method owes. The process is started
    with the first parcel, and again with the next after it died or was killed."""

    def __init__(
        self,
        wake: Callable[[], None],
        clock_ms: Callable[[], int],
        *,
        own_places: tuple[str, ...] = (),
        guardian: Guardian | None = None,
    ) -> None:
        self._wake = wake
        self._clock_ms = clock_ms
        self._own_places = own_places
        self._guardian = guardian or NoGuardian()
        self._folder = os.getcwd()
        self._in_hand = InHand()
        self._child: _Child | None = None
        self._heard: deque[tuple[_Child, int, bytes]] = deque()
        self._given_up: list[Bounced] = []
        self._news = threading.Event()

    def give(self, parcels: Iterable[Parcel]) -> None:
        taken = list(parcels)
        if not taken:
            return
        try:
            child = self._child or self._started()
        except OSError as error:
            why = f"the process that delivers cannot be started: {error}"
            for parcel in taken:
                self._given_up += given_up(list(parcel.deliveries), why, why)
            self._wake()
            return
        for parcel in taken:
            self._in_hand.take(parcel, self._clock_ms())
        child.say(frames.GIVE, encode(taken))

    def harvest(self) -> Settled:
        self._news.clear()
        settled = Settled([], self._given_up)
        self._given_up = []
        for _ in range(len(self._heard)):
            child, kind, body = self._heard.popleft()
            if child is not self._child:
                continue
            if kind == frames.SETTLED:
                self._settle(body, settled)
            elif kind == frames.ALIVE:
                self._in_hand.go_on(frames.decode_place(body), self._clock_ms())
            else:
                settled.bounced.extend(self._bury())
        late = self._in_hand.overdue(self._clock_ms())
        if late:
            settled.bounced.extend(self._kill(dict(late)))
        return settled

    def carrying(self) -> tuple[DebtName, ...]:
        return tuple(self._in_hand.names())

    def take_back(self) -> None:
        if self._child is not None:
            self._child.say(frames.TAKE_BACK)

    def next_due(self) -> int:
        return self._in_hand.next_due()

    def close(self, grace_ms: int) -> Settled:
        if self._child is not None:
            self._child.say(frames.LEAVE)
        give_up_at = self._clock_ms() + grace_ms
        last = self.harvest()
        while self._in_hand and (left_ms := give_up_at - self._clock_ms()) > 0:
            self._news.wait(left_ms / 1_000)
            more = self.harvest()
            last = Settled(last.delivered + more.delivered, last.bounced + more.bounced)
        if self._child is not None:
            if not self._in_hand:
                self._child.wait(LAST_BREATH_S)
            self._end()
        for place in self._in_hand.places():
            left = self._in_hand.drop(place)
            last.bounced.extend(untried(delivery, GIVEN_BACK) for delivery in left)
        return last

    def _started(self) -> _Child:
        self._child = _Child(self._own_places, self._folder, self._hear)
        self._guardian.guard(self._child.pid, must_end=False)
        return self._child

    def _settle(self, body: bytes, settled: Settled) -> None:
        now_ms = self._clock_ms()
        for ended in frames.decode_ended(body):
            if not self._in_hand.settle((ended.kind, ended.place), ended.name, now_ms):
                continue
            if ended.bounced is None:
                settled.delivered.append(ended.name)
            else:
                settled.bounced.append(ended.bounced)

    def _kill(self, late: dict[Place, int]) -> list[Bounced]:
        """Somewhere it hangs, and that can be ended only with everything else in that process."""
        self._end()
        bounced: list[Bounced] = []
        for place in self._in_hand.places():
            left = self._in_hand.drop(place)
            if place in late:
                why = f"it took longer than {late[place] / 1_000:g} s, and was ended"
                bounced += given_up(left, why, "it was not tried: an earlier one took too long")
            else:
                why = "it was cut short: another delivery of this process hung"
                bounced += [untried(delivery, why) for delivery in left]
        return bounced

    def _bury(self) -> list[Bounced]:
        """It died. Whatever was under way may have done that."""
        how = ending(self._end())
        bounced: list[Bounced] = []
        for place in self._in_hand.places():
            why = f"the process that delivered it died: it {how}"
            bounced += given_up(self._in_hand.drop(place), why, f"it was not tried: {why}")
        return bounced

    def _end(self) -> int:
        if self._child is None:
            return 0
        child, self._child = self._child, None
        code = child.end()
        self._guardian.forget(child.pid)
        return code

    def _hear(self, child: _Child, kind: int, body: bytes) -> None:
        self._heard.append((child, kind, body))
        self._news.set()
        self._wake()
