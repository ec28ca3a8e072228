"""Parcels for tests of whoever delivers them."""

from typing import Any

import msgspec

from holdfast.core.ids import Index, JobId
from holdfast.core.owed import EFFECT
from holdfast.wire.delivery import Bounced, DebtName, Delivery, Parcel
from holdfast.wire.sinks import AnySink, encode_sink
from holdfast.worker.sinks.outlet import Outlet

NONE: bytes = b""


def a_delivery(
    number: int, body: Any = None, *, key: str = "", tries: int = 0, raw: bytes | None = None
) -> Delivery:
    """The effect of task `number`; without a body it has its number for one."""
    encoded = msgspec.msgpack.encode({"n": number} if body is None else body)
    name = DebtName(JobId("7"), Index(number), 0)
    return Delivery(name, key, encoded if raw is None else raw, f"log:7/{number}:9:0", tries)


def a_parcel(*deliveries: Delivery, sink: AnySink | None = None, place: str = "ledger") -> Parcel:
    return Parcel(EFFECT, place, NONE if sink is None else encode_sink(sink), deliveries)


def delivered_to(outlet: Outlet, *deliveries: Delivery) -> list[Bounced | None]:
    """What became of each."""
    outcomes = list(outlet.deliver(a_parcel(*deliveries)))
    if [delivery for delivery, _ in outcomes] != list(deliveries):
        raise AssertionError("a sink must answer for each delivery, in order")
    return [bounced for _, bounced in outcomes]
