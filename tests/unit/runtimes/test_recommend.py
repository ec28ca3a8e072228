"""What a load asks for, and that it does not sway where the load does."""

from typing import Any

import pytest

from holdfast.core.ids import Instant
from holdfast.runtimes.recommend import (
    BANDS,
    CPU_GRAIN_MILLI,
    MEMORY_GRAIN,
    THROUGHPUT,
    Band,
    Component,
    Measured,
    banded,
    recommend,
)
from holdfast.runtimes.spec import Nfr
from holdfast.runtimes.status import Recommendation

NOW = Instant(1_000_000)
WINDOW_MS = 60_000
MIB = 2**20
KEY = "replicas/hello"
# Fifty requests a second with two replicas: each is trusted with twenty-five.
NFR = Nfr(mode="observe", min_throughput_rps=50.0, max_latency_ms=100)
CPU_ONLY = Nfr(mode="observe")


def samples(
    replicas: int, *, rate: float | None = 10.0, latency_ms: float | None = 5.0,
    cpu_milli: int = 100, memory: int = 64 * MIB, times: int = 3, age_ms: int = 0,
) -> tuple[Measured, ...]:  # fmt: skip
    """So many replicas, each sampled so many times, all of them alike."""
    return tuple(
        Measured(
            replica=f"hello/{number}",
            at=Instant(NOW - age_ms - 5_000 * (times - time - 1)),
            cpu_milli=cpu_milli,
            memory_bytes=memory,
            rate_milli=None if rate is None else round(rate * 1_000),
            latency_micros=None if latency_ms is None else round(latency_ms * 1_000),
        )
        for time in range(times)
        for number in range(replicas)
    )


def advised(
    measured: tuple[Measured, ...], *, nfr: Nfr = NFR, declared: int = 2, told: int = 2,
    previous: int | None = None, generation: int = 1, component: str = "function", **changes: Any,
) -> dict[str, Recommendation]:  # fmt: skip
    key = "hello" if component == "function" else ""
    subject = Component(
        component=component, function_key=key, declared=declared, told=told,
        samples=measured, **changes,
    )  # fmt: skip
    before = {} if previous is None else {KEY: a_recommendation(previous)}
    return recommend(
        nfr, subject, window_ms=WINDOW_MS, previous=before, generation=generation, now=NOW
    )


def a_recommendation(value: int) -> Recommendation:
    return Recommendation(value=value, observed_at=NOW, generation=1)


def replicas(measured: tuple[Measured, ...], **options: Any) -> tuple[int, str]:
    found = advised(measured, **options)[KEY]
    return found.value, found.basis


@pytest.mark.parametrize(
    ("rate", "value"),
    # A share of twenty-five each, with a tenth to either side in which two stay two.
    [(1.0, 2), (25.0, 2), (27.5, 2), (27.6, 3), (37.5, 3), (50.0, 4), (500.0, 40)],
)
def test_more_requests_than_the_share_of_each_take_more_replicas(rate: float, value: int) -> None:
    assert replicas(samples(2, rate=rate)) == (value, "throughput")


def test_what_must_be_borne_at_any_time_is_never_given_up() -> None:
    assert replicas(samples(4, rate=0.0, cpu_milli=0), told=4) == (2, "throughput")
    # Without such a requirement an idle function needs no more than one.
    assert replicas(samples(4, rate=0.0, cpu_milli=0), told=4, nfr=CPU_ONLY) == (1, "cpu")


@pytest.mark.parametrize(
    ("latency_ms", "value"),
    [(5.0, 2), (85.0, 2), (100.0, 2), (101.0, 3), (150.0, 4), (10_000.0, 4)],
)
def test_requests_that_take_too_long_ask_for_more_and_at_most_for_twice_as_many(
    latency_ms: float, value: int
) -> None:
    found, basis = replicas(samples(2, latency_ms=latency_ms))
    assert found == value
    assert basis == ("latency" if value > 2 else "throughput")


@pytest.mark.parametrize(
    ("cpu_milli", "asked_milli", "value"),
    [(100, 0, 2), (900, 0, 2), (901, 0, 3), (1_600, 0, 4), (400, 400, 3), (400, 1_000, 2)],
)
def test_busy_processors_ask_for_more(cpu_milli: int, asked_milli: int, value: int) -> None:
    found, basis = replicas(samples(2, cpu_milli=cpu_milli), cpus_milli=asked_milli)
    assert found == value
    assert basis == ("cpu" if value > 2 else "throughput")


def test_a_function_that_tells_nothing_of_itself_is_judged_by_its_processor() -> None:
    silent = samples(2, rate=None, latency_ms=None, cpu_milli=1_600)
    assert replicas(silent) == (4, "cpu")


def test_the_band_keeps_a_recommendation_where_it_is() -> None:
    assert replicas(samples(4, rate=23.0), told=4, previous=4) == (4, "throughput")
    assert replicas(samples(4, rate=27.4), told=4, previous=4) == (4, "throughput")
    assert replicas(samples(4, rate=16.0), told=4, previous=4) == (3, "throughput")
    # One of another generation is none.
    assert replicas(samples(4, rate=23.0), told=4, previous=9, generation=2)[0] == 4


@pytest.mark.parametrize("load", range(0, 400, 7))
def test_a_load_that_sways_within_the_band_asks_for_one_number(load: int) -> None:
    band = BANDS[THROUGHPUT]
    settled = banded(load, 25, band, 1)
    for swayed in (load, load * 97 // 100, load * 103 // 100, load):
        again = banded(swayed, 25, band, settled)
        if again != settled:
            # It may move once, to where both ends of the sway are at rest.
            settled = again
    assert banded(load, 25, band, settled) == settled


def test_a_number_is_never_below_one() -> None:
    assert banded(0, 25, Band(90, 100, 110), 5) == 1
    assert banded(0, 25, Band(90, 100, 110), 0) == 1


def test_who_sees_a_part_may_ask_for_more_and_never_for_less() -> None:
    assert replicas(samples(1, rate=1.0, cpu_milli=0), told=4, nfr=CPU_ONLY) == (4, "cpu")
    assert replicas(samples(1, rate=200.0), told=4) == (8, "throughput")


def test_what_was_borne_before_replicas_came_or_went_is_not_added_to_what_is_borne_since() -> None:
    alone = samples(2, rate=60.0, times=6, age_ms=15_000)
    together = samples(5, rate=24.0, times=3)
    assert replicas(alone + together, told=5) == (5, "throughput")
    # Two of four went; what they bore is borne by the others now.
    four, two = samples(4, rate=25.0, times=6, age_ms=20_000), samples(2, rate=50.0, times=4)
    assert replicas(four + two, told=2) == (4, "throughput")


@pytest.mark.parametrize(
    ("seen", "told", "times", "confidence"),
    [(2, 2, 3, 1.0), (2, 2, 9, 1.0), (1, 2, 3, 0.5), (2, 2, 1, 0.3), (2, 2, 2, 0.7)],
)
def test_confidence_is_how_much_of_the_picture_is_there(
    seen: int, told: int, times: int, confidence: float
) -> None:
    assert advised(samples(seen, times=times), told=told)[KEY].confidence == confidence


def test_resolution_002_13_a_recommendation_carries_when_and_for_what_it_was_made() -> None:
    found = advised(samples(2, age_ms=7_000), generation=3)
    assert {each.observed_at for each in found.values()} == {NOW - 7_000}
    assert {each.generation for each in found.values()} == {3}


def test_resolution_002_14_every_value_is_a_whole_number() -> None:
    found = advised(samples(3, rate=33.3, cpu_milli=777), told=3)
    assert set(found) == {KEY, "memory/hello", "cpu/hello"}
    assert all(type(each.value) is int for each in found.values())


def test_old_samples_and_functions_that_are_off_say_nothing() -> None:
    assert advised(()) == {}
    assert advised(samples(2, age_ms=WINDOW_MS + 20_000)) == {}
    assert advised(samples(2), declared=0) == {}


def test_memory_and_processor_get_a_quarter_more_than_was_needed_in_whole_grains() -> None:
    found = advised(samples(2, memory=100 * MIB, cpu_milli=333))
    assert found["memory/hello"].value == 128 * MIB
    assert found["cpu/hello"].value == 450
    idle = advised(samples(2, memory=0, cpu_milli=0))
    assert idle["memory/hello"].value == MEMORY_GRAIN
    assert idle["cpu/hello"].value == CPU_GRAIN_MILLI


def test_the_data_grid_has_replicas_of_its_own_and_nothing_else() -> None:
    found = advised(samples(3, cpu_milli=900), component="odgm", told=3, nfr=CPU_ONLY)
    assert set(found) == {"odgm_replicas"}
    assert found["odgm_replicas"].value == 3


def test_a_busy_replica_weighs_more_in_the_latency_of_all() -> None:
    busy = samples(1, rate=20.0, latency_ms=200.0)
    idle = tuple(
        Measured(
            replica="hello/9", at=each.at, cpu_milli=1, memory_bytes=MIB, rate_milli=1,
            latency_micros=1_000,
        )
        for each in busy
    )  # fmt: skip
    assert replicas(busy + idle)[1] == "latency"
