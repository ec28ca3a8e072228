"""How the services of this worker stand, what they take and what they tell of their partitions,
until the coordinator has heard it.

Written by whoever looks after the services, from any thread; read by the agent. News are told until
an answer names the exchange that told them, and all of them again to a coordinator that asks who
this is. The rest is told once: the next of it is a few seconds away.
"""

import threading
from collections.abc import Iterable, Iterator

from msgspec import structs

from holdfast.core.ids import LeaseId
from holdfast.wire.exchange import Exchange, Sample, ServiceNews
from holdfast.wire.servicing import PARTITIONS_MAX, STOPPING, PartitionNews


class ServiceBook:
    """`is_drained`: an operator wants nothing to run here, and what never ends by itself has to be
    ended. `due_ms`: when somebody here has something to do that nothing else announces; zero for
    never. `scraped` are replicas whose own metrics somebody wants."""

    def __init__(self) -> None:
        self.is_drained = False
        self.due_ms = 0
        self.scraped: frozenset[LeaseId] = frozenset()
        self._lock = threading.Lock()
        self._known: dict[LeaseId, ServiceNews] = {}
        self._unsaid: dict[LeaseId, ServiceNews] = {}
        self._samples: dict[LeaseId, tuple[Sample, int]] = {}
        self._partitions: dict[LeaseId, tuple[PartitionNews, int]] = {}

    # What is written.

    def note(self, news: ServiceNews) -> bool:
        """How a replica stands now. False where that is nothing new; what is stopping stays so."""
        with self._lock:
            known = self._known.get(news.lease_id)
            if known == news or (known is not None and known.state == STOPPING):
                return False
            self._known[news.lease_id] = self._unsaid[news.lease_id] = news
        return True

    def add(self, sample: Sample, at_ms: int) -> None:
        with self._lock:
            if sample.lease_id in self._known:
                self._samples[sample.lease_id] = (sample, at_ms)

    def add_partitions(self, news: PartitionNews, at_ms: int) -> None:
        with self._lock:
            if news.lease_id in self._known:
                self._partitions[news.lease_id] = (news, at_ms)

    def forget(self, lease_id: LeaseId) -> None:
        """It has ended, or nobody wants to hear of it any more."""
        with self._lock:
            self._known.pop(lease_id, None)
            self._unsaid.pop(lease_id, None)
            self._samples.pop(lease_id, None)
            self._partitions.pop(lease_id, None)
            if lease_id in self.scraped:
                self.scraped -= {lease_id}

    def state_of(self, lease_id: LeaseId) -> str:
        news = self._known.get(lease_id)
        return "" if news is None else news.state

    def is_said(self, lease_id: LeaseId) -> bool:
        """Whether the coordinator has heard how this one stands."""
        return lease_id not in self._unsaid

    # What the agent asks.

    def has_news(self) -> bool:
        return bool(self._unsaid or self._samples or self._partitions)

    def tell(
        self, now_ms: int, *, everything: bool
    ) -> tuple[tuple[ServiceNews, ...], tuple[Sample, ...], tuple[PartitionNews, ...]]:
        if not self._known:
            return (), (), ()
        with self._lock:
            if everything:
                self._unsaid.update(self._known)
            samples = tuple(
                structs.replace(sample, ago_ms=max(0, now_ms - at_ms))
                for sample, at_ms in self._samples.values()
            )
            self._samples.clear()
            return tuple(self._unsaid.values()), samples, tuple(self._tell_partitions(now_ms))

    def _tell_partitions(self, now_ms: int) -> Iterator[PartitionNews]:
        """As many as one exchange may carry; the rest goes with the next."""
        total = 0
        for lease_id, (news, at_ms) in list(self._partitions.items()):
            total += len(news.claims)
            if total > max(PARTITIONS_MAX, len(news.claims)):
                return
            del self._partitions[lease_id]
            yield structs.replace(news, ago_ms=max(0, now_ms - at_ms))

    def answered(self, sent: Exchange) -> None:
        """What that exchange told is known now."""
        if sent.services:
            with self._lock:
                for news in sent.services:
                    if self._unsaid.get(news.lease_id) is news:
                        del self._unsaid[news.lease_id]

    def scrape(self, lease_ids: Iterable[LeaseId]) -> None:
        """From now on somebody wants the metrics that these offer themselves."""
        with self._lock:
            self.scraped |= frozenset(lease_ids)
