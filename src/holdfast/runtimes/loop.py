"""The loop that keeps class runtimes as they were declared.

Level-based: whatever happened, a pass looks at how things stand and does what follows. It observes
the children, asks the analyzer, judges, writes the status where it says something new, and carries
out the actions one after another, each with its outcome written before the next. A pass that
changed anything is followed by another, until one changes nothing: then a runtime costs nothing
until something happens, its time has come, or it is looked at again for safety's sake.

It is a step function. Ports may answer at once or later; meanwhile other runtimes have their turn,
and the same runtime is never worked on twice at once.
"""

from collections.abc import Mapping
from typing import Final
from zlib import crc32

from holdfast.core.ids import Instant
from holdfast.runtimes.descriptor import TemplateDescriptor
from holdfast.runtimes.evaluation import DEFAULT_CONFIG, ControllerConfig
from holdfast.runtimes.passing import Pass, Surroundings
from holdfast.runtimes.ports import Analyzer, Clock, Store, Substrate
from holdfast.runtimes.queue import WorkQueue
from holdfast.runtimes.tally import Tally
from holdfast.runtimes.templates import TEMPLATES

RESYNC_MS: Final = 300_000
"""Every runtime is looked at so often at least, whatever was heard of it."""

ANALYZE_MS: Final = 10_000
"""How often load is looked at where it matters."""

PASSES_A_STEP: Final = 5
"""So many passes, and others have their turn; what is left is due at once."""

PASSES_IN_A_ROW: Final = 25
"""More changes than that at one sitting are no progress: the runtime has to wait like one that
failed."""


class Reconciler:
    def __init__(
        self,
        store: Store,
        substrate: Substrate,
        analyzers: Mapping[str, Analyzer],
        clock: Clock,
        *,
        descriptors: Mapping[str, TemplateDescriptor] = TEMPLATES,
        config: ControllerConfig = DEFAULT_CONFIG,
        resync_ms: int = RESYNC_MS,
    ) -> None:
        self.queue = WorkQueue()
        self.tally = Tally()
        self._resync_ms = resync_ms
        self._rows: dict[str, int] = {}
        self._clock = clock
        self._surroundings = Surroundings(
            store=store,
            substrate=substrate,
            analyzers=analyzers,
            clock=clock,
            descriptors=descriptors,
            config=config,
            tally=self.tally,
        )
        for name in store.names():
            self.enqueue(name)

    def enqueue(self, name: str) -> None:
        """Something happened to this runtime, or to a child of it."""
        self.queue.add(name)

    def step(self, now: Instant, *, most: int = PASSES_A_STEP) -> Instant:
        """Take so many passes at most; when the next one is due, NEVER for whenever."""
        for _ in range(most):
            name = self.queue.take(now)
            if name is None:
                break
            Pass(name, self._surroundings, self._passed).begin()
        return self.queue.next_due(now)

    def _passed(self, passed: Pass) -> None:
        """A pass is over: when is the next one?"""
        name, now = passed.name, self._clock.now()
        if passed.is_gone:
            self._rows.pop(name, None)
            self._surroundings.forget(name)
            self.queue.forget(name)
            self.queue.done(name)
            return
        row = self._rows[name] = self._rows.get(name, 0) + 1 if passed.has_changed else 0
        if passed.has_failed or row > PASSES_IN_A_ROW:
            self._rows[name] = 0
            self.queue.failed(name, now)
            return
        self.queue.done(name)
        if passed.has_changed:
            self.queue.add(name)
            return
        # Not all of them in the same moment: those that began together would stay together.
        wait_ms = self._resync_ms - crc32(name.encode()) % max(1, self._resync_ms // 4)
        if passed.requeue_after_ms is not None:
            wait_ms = min(wait_ms, passed.requeue_after_ms)
        if passed.is_analyzed:
            wait_ms = min(wait_ms, ANALYZE_MS)
        self.queue.add_at(name, Instant(now + max(1, wait_ms)))
