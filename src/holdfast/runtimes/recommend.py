"""What the load asks for: recommendations from measurements of the replicas.

A function that must answer `minThroughputRps` with the replicas it declares trusts each of them
with its share of that; more requests take more replicas. Requests that take longer than
`maxLatencyMs`, and processors that are busy, ask for more as well; the most demanding wins and is
named as the basis. Around every threshold lies a band in which the last recommendation stays, so
that a load that sways does not make the number of replicas sway. Whoever sees only a part of the
replicas may ask for more and never for less.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from holdfast.core.ids import Instant
from holdfast.runtimes.resource import ODGM
from holdfast.runtimes.spec import CPU, MEMORY, ODGM_REPLICAS, REPLICAS, Nfr
from holdfast.runtimes.status import Recommendation, target_key

THROUGHPUT: Final = "throughput"
LATENCY: Final = "latency"
CPU_LOAD: Final = "cpu"
USE: Final = "use"

ONE_CPU_MILLI: Final = 1_000
"""What a replica is taken to have where it asks for nothing: most programs use one at a time."""

SAMPLES_ENOUGH: Final = 3
"""So many samples of a replica say as much as any number of them."""

SILENT_MS: Final = 15_000
"""A replica that nothing was heard of for so long, while others were, is not there any more."""

GROWTH_MOST: Final = 2
"""A latency says that there are too few replicas, and little of how many: at most so many times
as many are asked for at once."""

MEMORY_GRAIN: Final = 16 * 2**20
CPU_GRAIN_MILLI: Final = 50


class Band(Struct, frozen=True, gc=False):
    """How much of what a replica may bear, in percent: a new number is made for `aim`, and the
    old one stays while each replica bears no less than `low` and no more than `high`."""

    low: int
    aim: int
    high: int


BANDS: Final[Mapping[str, Band]] = {
    THROUGHPUT: Band(90, 100, 110),
    LATENCY: Band(70, 85, 100),
    CPU_LOAD: Band(70, 80, 90),
}


class Measured(Struct, frozen=True, kw_only=True, gc=False):
    """What one replica took and answered around one moment. Rates are in thousandths of a request
    a second; None is what it does not tell."""

    replica: str
    at: Instant
    cpu_milli: int
    memory_bytes: int
    rate_milli: int | None = None
    latency_micros: int | None = None


class Component(Struct, frozen=True, kw_only=True):
    """A function, or the data grid (`function_key` empty), with the samples of its replicas.
    `told` is how many replicas it has now, `cpus_milli` what each asks for."""

    component: str
    function_key: str
    declared: int
    told: int
    cpus_milli: int = 0
    samples: tuple[Measured, ...] = ()


class Use(Struct, frozen=True, kw_only=True, gc=False):
    """What all sampled replicas of a component did together, on the average of the window."""

    replicas: int
    samples: int
    latest_at: Instant
    cpu_milli: int
    cpu_milli_peak: int
    memory_bytes_peak: int
    rate_milli: int | None
    latency_micros: int | None


def recommend(
    nfr: Nfr,
    component: Component,
    *,
    window_ms: int,
    previous: Mapping[str, Recommendation],
    generation: int,
    now: Instant,
) -> dict[str, Recommendation]:
    """By target key what is right for this component; nothing of what nobody measured."""
    recent = _since_last_change([s for s in component.samples if now - s.at <= window_ms])
    if not recent or component.declared <= 0:
        return {}
    use = _use(recent)
    expected = max(component.told, 1)
    confidence = _confidence(use, expected)
    is_partial = use.replicas < expected
    is_odgm = component.component == ODGM
    found: dict[str, Recommendation] = {}

    def put(dimension: str, value: int, basis: str) -> None:
        key = target_key(dimension, component.function_key)
        found[key] = Recommendation(
            value=value,
            observed_at=use.latest_at,
            generation=generation,
            confidence=confidence,
            basis=basis,
        )

    def last(dimension: str) -> int | None:
        known = previous.get(target_key(dimension, component.function_key))
        return known.value if known is not None and known.generation == generation else None

    counted = ODGM_REPLICAS if is_odgm else REPLICAS
    before = last(counted) or component.told
    value, basis = _replicas(nfr, component, use, before)
    put(counted, max(value, before) if is_partial else value, basis)
    if not is_odgm:
        put(MEMORY, _room(use.memory_bytes_peak, last(MEMORY), MEMORY_GRAIN), USE)
        put(CPU, _room(use.cpu_milli_peak, last(CPU), CPU_GRAIN_MILLI), USE)
    return found


def _since_last_change(samples: list[Measured]) -> list[Measured]:
    """Samples of the replicas there are, since they were the same ones. Of a load that moved from
    two replicas to five, what the two bore before and what the three bear now would make more
    than there ever was."""
    first: dict[str, Instant] = {}
    last: dict[str, Instant] = {}
    for sample in samples:
        first[sample.replica] = min(sample.at, first.get(sample.replica, sample.at))
        last[sample.replica] = max(sample.at, last.get(sample.replica, sample.at))
    heard_until = max(last.values(), default=0)
    gone = [replica for replica, at in last.items() if heard_until - at > SILENT_MS]
    since = max((at for replica, at in first.items() if replica not in gone), default=0)
    since = max([since, *(last[replica] + 1 for replica in gone)])
    return [s for s in samples if s.at >= since and s.replica not in gone]


def _use(samples: list[Measured]) -> Use:
    """Each replica counts with the mean of its samples, so that one sampled more often, or just
    begun, weighs no more than another."""
    by_replica: dict[str, list[Measured]] = defaultdict(list)
    for sample in samples:
        by_replica[sample.replica].append(sample)
    rates, answered, waited, cpu_milli = [], 0, 0, 0
    for own in by_replica.values():
        cpu_milli += sum(sample.cpu_milli for sample in own) // len(own)
        told = [sample.rate_milli for sample in own if sample.rate_milli is not None]
        if told:
            rates.append(sum(told) // len(told))
        for sample in own:
            if sample.latency_micros is not None:
                # A request counts as much as another: a busy replica's latency weighs more.
                weight = max(1, sample.rate_milli or 0)
                answered, waited = answered + weight, waited + weight * sample.latency_micros
    return Use(
        replicas=len(by_replica),
        samples=min(len(own) for own in by_replica.values()),
        latest_at=max(sample.at for sample in samples),
        cpu_milli=cpu_milli,
        cpu_milli_peak=max(sample.cpu_milli for sample in samples),
        memory_bytes_peak=max(sample.memory_bytes for sample in samples),
        rate_milli=sum(rates) if rates else None,
        latency_micros=waited // answered if answered else None,
    )


def _confidence(use: Use, expected: int) -> float:
    """How much of the picture is there: of the replicas, and of what is enough of each. In tenths:
    a finer number would be a new recommendation with every sample."""
    seen = min(use.replicas, expected) / expected
    return round(seen * min(use.samples, SAMPLES_ENOUGH) / SAMPLES_ENOUGH, 1)


def _replicas(nfr: Nfr, component: Component, use: Use, before: int) -> tuple[int, str]:
    asked: list[tuple[int, str]] = []
    # What is required of requests is required of functions; the data grid goes by its processor.
    is_asked = component.component != ODGM
    if is_asked and nfr.min_throughput_rps is not None and use.rate_milli is not None:
        share_milli = max(1, round(nfr.min_throughput_rps * 1_000) // component.declared)
        value = banded(use.rate_milli, share_milli, BANDS[THROUGHPUT], before)
        # What must be borne at any time must not have to be started first.
        asked.append((max(component.declared, value), THROUGHPUT))
    if is_asked and nfr.max_latency_ms is not None and use.latency_micros is not None:
        waited = use.latency_micros * use.replicas
        value = banded(waited, nfr.max_latency_ms * 1_000, BANDS[LATENCY], before)
        asked.append((min(value, GROWTH_MOST * max(1, component.told)), LATENCY))
    each_milli = component.cpus_milli or ONE_CPU_MILLI
    asked.append((banded(use.cpu_milli, each_milli, BANDS[CPU_LOAD], before), CPU_LOAD))
    most = max(value for value, _ in asked)
    return next((value, basis) for value, basis in asked if value == most)


def banded(load: int, each: int, band: Band, before: int) -> int:
    """How many it takes to bear a load of which each may bear so much; as many as before while
    that is within the band, and one at least."""
    fewest, fitting, most = (
        max(1, -(-load * 100 // (each * percent))) for percent in (band.high, band.aim, band.low)
    )
    return before if fewest <= before <= most else fitting


def _room(peak: int, before: int | None, grain: int) -> int:
    """What was needed and a quarter more, in whole grains; what was said before while it leaves
    from a tenth to a half."""
    if before is not None and peak * 110 <= before * 100 <= peak * 150:
        return before
    return max(grain, -(-peak * 125 // (100 * grain)) * grain)
