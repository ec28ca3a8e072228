"""What every sink promises to whoever delivers, and what they have in common."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from holdfast.core.unreadable import UNREADABLE
from holdfast.wire.delivery import Bounced, Delivery, Parcel
from holdfast.worker.troubles import bounded

ERROR_BYTES_MAX: Final = 1_024
FAILURES_MAX: Final = 3
"""So many failures in a row, and the rest of a parcel waits: a sink that is down is not asked for
each of a thousand entries whether it still is."""
WAITS: Final = "it waits for an earlier effect with the same key"
RESTS: Final = "it was not tried: the sink failed several times in a row"

_DECODE: Final[Callable[[bytes], Any]] = msgspec.msgpack.Decoder().decode

Outcome = tuple[Delivery, Bounced | None]
"""A delivery and what became of it; None for well."""


class Effect(Struct, frozen=True, kw_only=True):
    """What a function is called with. `id` is the idempotency key: the same in every try of this
    effect, and never that of another. `tries` were made before and failed."""

    id: str
    key: str
    body: Any
    tries: int


class NotDelivered(Exception):
    """Why an effect did not happen. `is_final`: no further try can help. `wait_ms`: nobody wants
    to be asked sooner."""

    def __init__(self, told: str, *, is_final: bool = False, wait_ms: int = 0) -> None:
        super().__init__(told)
        self.is_final = is_final
        self.wait_ms = wait_ms


class Outlet(Protocol):
    """One sink, open for deliveries. Used by one thread at a time."""

    def deliver(self, parcel: Parcel) -> Iterator[Outcome]:
        """Each delivery with what became of it, in their order, as soon as that is certain.
        Those behind a failed one with the same key come back untried."""
        ...

    def close(self) -> None: ...


def effect_of(delivery: Delivery) -> Effect:
    """`NotDelivered` where the body cannot be read, which no other try will change."""
    return Effect(
        id=delivery.idempotency, key=delivery.key, body=body_of(delivery), tries=delivery.tries
    )


def body_of(delivery: Delivery) -> Any:
    try:
        return _DECODE(delivery.body)
    except UNREADABLE as error:
        raise NotDelivered(f"its body cannot be read: {error}", is_final=True) from None


def as_json(value: Any) -> bytes:
    """`NotDelivered` for what has no form in JSON."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        told = f"its body cannot be written as JSON: {error}"
        raise NotDelivered(told, is_final=True) from None


def bounced(delivery: Delivery, error: NotDelivered) -> Bounced:
    told = bounded(str(error), ERROR_BYTES_MAX)
    return Bounced(delivery.name, told, is_final=error.is_final, wait_ms=error.wait_ms)


def untried(delivery: Delivery, why: str) -> Bounced:
    return Bounced(delivery.name, why, is_untried=True)


class Order:
    """Keeps the order of a parcel: nothing passes a failed effect with the same key, and a sink
    that fails again and again is left alone."""

    def __init__(self) -> None:
        self._stuck: set[str] = set()
        self._failures = 0

    def obstacle(self, delivery: Delivery) -> str:
        """Why this one is not to be tried; empty where it is."""
        if delivery.key and delivery.key in self._stuck:
            return WAITS
        return RESTS if self._failures >= FAILURES_MAX else ""

    def went_well(self) -> None:
        self._failures = 0

    def failed(self, delivery: Delivery, error: NotDelivered) -> Bounced:
        self._stuck.add(delivery.key)
        # What is wrong with one effect says nothing about the sink.
        self._failures += not error.is_final
        return bounced(delivery, error)


def one_by_one(
    deliveries: Iterable[Delivery],
    deliver: Callable[[Delivery], None],
    order: Order | None = None,
) -> Iterator[Outcome]:
    """For sinks that take one effect at a time; `deliver` raises `NotDelivered`."""
    order = order or Order()
    for delivery in deliveries:
        obstacle = order.obstacle(delivery)
        if obstacle:
            yield delivery, untried(delivery, obstacle)
            continue
        try:
            deliver(delivery)
        except NotDelivered as error:
            yield delivery, order.failed(delivery, error)
        else:
            order.went_well()
            yield delivery, None
