"""A thread that delivers what is for one place, one parcel after another."""

import threading
import time
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Final

from msgspec import structs

from holdfast.core.owed import EFFECT, FILE
from holdfast.wire.delivery import Bounced, DebtName, Parcel
from holdfast.wire.sinks import AnySink, FileSink, FunctionSink, HttpSink, PostgresSink
from holdfast.worker.delivering import GIVEN_BACK, Place, sink_in
from holdfast.worker.placing import place_files
from holdfast.worker.sinks.file import FileOutlet
from holdfast.worker.sinks.function import FunctionOutlet, Functions
from holdfast.worker.sinks.http import HttpOutlet
from holdfast.worker.sinks.outlet import Outcome, Outlet, untried
from holdfast.worker.sinks.postgres import PostgresOutlet
from holdfast.worker.troubles import describe

TOGETHER_MAX: Final = 1_000
IDLE_S: Final = 60.0
"""A sink that is not used for so long is closed, and opened again when it is."""

TOLD_NS: Final = 2_000_000
"""What comes at once is told together; what took longer than this is told by itself."""

Word = tuple[DebtName, Bounced | None]
"""A delivery and what became of it; None for well."""

Tell = Callable[[Place, list[Word]], None]


class Courier:
    """`tell` is told what became of each delivery, and `alive` that something goes on, both in
    this thread. What the code of users has done is told before more of it runs: it may take this
    process down, and what went before is not to be blamed. `own_places` are file systems that are
    surely those of this machine."""

    def __init__(
        self,
        place: Place,
        tell: Tell,
        alive: Callable[[Place], None],
        functions: Functions,
        own_places: tuple[str, ...],
    ) -> None:
        self._place = place
        self._tell = tell
        self._alive = lambda: alive(place)
        self._functions = functions
        self._own_places = own_places
        self._parcels: SimpleQueue[Parcel | None] = SimpleQueue()
        self._stopping = threading.Event()
        # The definition of the sink that is open now.
        self._open: tuple[bytes, Outlet] | None = None
        name = f"holdfast-{place[1]}"
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join()

    def give(self, parcel: Parcel) -> None:
        self._stopping.clear()
        self._parcels.put(parcel)

    def stop(self) -> None:
        """Begin nothing that was given until now: it comes back untried."""
        self._stopping.set()

    def leave(self) -> None:
        """End when what has begun is over."""
        self._stopping.set()
        self._parcels.put(None)

    def _work(self) -> None:
        while True:
            try:
                waiting = [self._parcels.get(timeout=IDLE_S)]
            except Empty:
                self._close()
                continue
            while not self._parcels.empty():
                waiting.append(self._parcels.get())
            for parcel in together([parcel for parcel in waiting if parcel is not None]):
                self._deliver(parcel)
            if None in waiting:
                self._close()
                return

    def _deliver(self, parcel: Parcel) -> None:
        settled: set[DebtName] = set()
        words: list[Word] = []
        why = GIVEN_BACK
        try:
            if not self._stopping.is_set():
                self._go_round(parcel, settled, words)
        except Exception as error:  # noqa: BLE001 - it is told, as what it is: ours
            self._close()
            why = describe(error).error
        for delivery in parcel.deliveries:
            if delivery.name not in settled:
                is_first = why is not GIVEN_BACK and not settled
                settled.add(delivery.name)
                bounced = Bounced(delivery.name, why) if is_first else untried(delivery, why)
                words.append((delivery.name, bounced))
        self._say(words)

    def _go_round(self, parcel: Parcel, settled: set[DebtName], words: list[Word]) -> None:
        is_risky = parcel.kind == EFFECT and runs_code(sink_in(parcel))
        told_at = time.monotonic_ns()
        for delivery, outcome in self._outcomes(parcel):
            settled.add(delivery.name)
            words.append((delivery.name, outcome))
            if is_risky or time.monotonic_ns() - told_at > TOLD_NS:
                self._say(words)
                told_at = time.monotonic_ns()
            if self._stopping.is_set():
                return

    def _say(self, words: list[Word]) -> None:
        if words:
            self._tell(self._place, words[:])
            words.clear()

    def _outcomes(self, parcel: Parcel) -> Iterator[Outcome]:
        if parcel.kind == EFFECT:
            return self._outlet(parcel).deliver(parcel)
        if parcel.kind == FILE:
            return iter(place_files(parcel, is_own=parcel.place in self._own_places))
        raise ValueError(f"nobody here delivers a {parcel.kind}")

    def _outlet(self, parcel: Parcel) -> Outlet:
        if self._open is None or self._open[0] != parcel.sink:
            self._close()
            self._open = (parcel.sink, self._outlet_of(sink_in(parcel)))
        return self._open[1]

    def _outlet_of(self, sink: AnySink) -> Outlet:
        if isinstance(sink, FileSink):
            return FileOutlet(sink, self._alive)
        if isinstance(sink, HttpSink):
            return HttpOutlet(sink)
        if isinstance(sink, FunctionSink):
            return FunctionOutlet(sink, self._functions)
        return PostgresOutlet(sink, self._functions, self._alive)

    def _close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None


def runs_code(sink: AnySink) -> bool:
    """Whether code of users runs in it."""
    if isinstance(sink, PostgresSink):
        return bool(sink.function)
    return isinstance(sink, FunctionSink)


def together(parcels: list[Parcel]) -> list[Parcel]:
    """Parcels of one place that came while it was busy, as few as they can be in the same order:
    a sink that waits for a disk waits once for all of them."""
    joined: list[Parcel] = []
    for parcel in parcels:
        last = joined[-1] if joined else None
        if last is not None and last.sink == parcel.sink and len(last.deliveries) < TOGETHER_MAX:
            deliveries = last.deliveries + parcel.deliveries
            joined[-1] = structs.replace(last, deliveries=deliveries)
        else:
            joined.append(parcel)
    return joined
