"""Request counters of functions, as their libraries write them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.wire.scraped import (
    COUNTERS,
    DURATIONS,
    Reading,
    Traffic,
    growth,
    quantile,
    read,
    traffic,
)

# As prometheus_client writes it.
PYTHON = """# HELP http_requests_total Requests.
# TYPE http_requests_total counter
http_requests_total{method="GET",path="/"} 10.0
http_requests_total{method="POST",path="/"} 5.0
http_requests_total{method="GET",path="/metrics"} 100.0
# TYPE http_requests_created gauge
http_requests_created{method="GET",path="/"} 1.7e+09
# TYPE http_request_duration_seconds histogram
http_request_duration_seconds_bucket{le="0.1"} 12.0
http_request_duration_seconds_bucket{le="0.5"} 14.0
http_request_duration_seconds_bucket{le="+Inf"} 15.0
http_request_duration_seconds_count 15.0
http_request_duration_seconds_sum 3.0
process_cpu_seconds_total 4.2
"""


def a_reading(**counts: float) -> Reading:
    return Reading(
        requests={"": counts.get("requests", 0.0)},
        measured={"": counts.get("measured", 0.0)},
        seconds={"": counts.get("seconds", 0.0)},
        buckets={},
    )


def test_one_counter_and_one_duration_are_read() -> None:
    found = read(PYTHON, ("/metrics",))
    assert sum(found.requests.values()) == 15
    assert found.measured == {"": 15.0}
    assert found.seconds == {"": 3.0}
    assert found.buckets == {0.1: 12.0, 0.5: 14.0, float("inf"): 15.0}


def test_what_asks_for_the_metrics_is_counted_only_where_nobody_says_it_is_not() -> None:
    assert sum(read(PYTHON).requests.values()) == 115


def test_rates_are_differences() -> None:
    later = PYTHON.replace('"GET",path="/"} 10.0', '"GET",path="/"} 60.0')
    found = traffic(read(PYTHON), read(later), 10_000)
    assert found == Traffic(5.0, None)


@pytest.mark.parametrize("name", COUNTERS)
def test_every_known_counter_is_understood(name: str) -> None:
    before, now = read(f'{name}{{a="b"}} 1\n'), read(f'{name}{{a="b"}} 21\n')
    assert traffic(before, now, 1_000) == Traffic(20.0, None)


@pytest.mark.parametrize("name", [*DURATIONS, "greeter_request_duration_seconds"])
def test_every_known_duration_is_understood_in_its_unit(name: str) -> None:
    unit = 1 if name.endswith("milliseconds") else 1_000
    before = read(f"{name}_count 0\n{name}_sum 0\n")
    now = read(f"{name}_count 4\n{name}_sum 8\n")
    assert traffic(before, now, 1_000) == Traffic(4.0, 2.0 * unit)


def test_a_known_name_goes_before_one_that_only_ends_like_one() -> None:
    text = "a_requests_total 7\nhttp_server_requests_total 9\nrequests_total 8\n"
    assert read(text).requests == {"": 9.0}
    assert read("b_requests_total 2\na_requests_total 7\n").requests == {"": 7.0}


def test_a_counter_that_went_back_began_anew() -> None:
    assert growth({"a": 100.0, "b": 5.0}, {"a": 4.0, "b": 6.0, "c": 2.0}) == 7.0
    found = traffic(a_reading(requests=100.0), a_reading(requests=30.0), 10_000)
    assert found.requests_per_s == 3.0


def test_without_time_between_them_two_readings_say_nothing() -> None:
    assert traffic(a_reading(), a_reading(requests=5.0), 0) == Traffic()


def test_without_requests_there_is_a_rate_and_no_latency() -> None:
    same = a_reading(requests=5.0, measured=5.0, seconds=1.0)
    assert traffic(same, same, 1_000) == Traffic(0.0, None)


def test_the_latency_is_a_percentile_where_there_are_buckets_and_the_mean_elsewhere() -> None:
    name = "http_request_duration_seconds"
    buckets = "".join(
        f'{name}_bucket{{le="{bound}"}} {count}\n'
        for bound, count in (("0.1", 90), ("0.2", 100), ("+Inf", 100))
    )
    sums = f"{name}_count 100\n{name}_sum 6\n"
    nothing = read(f'{name}_count 0\n{name}_sum 0\n{name}_bucket{{le="+Inf"}} 0\n')
    with_buckets = traffic(nothing, read(buckets + sums), 1_000).latency_ms
    assert with_buckets == pytest.approx(150.0)
    assert traffic(nothing, read(sums), 1_000).latency_ms == pytest.approx(60.0)


@pytest.mark.parametrize(
    ("cumulated", "value"),
    [
        ({}, None),
        ({float("inf"): 5.0}, None),
        ({0.1: 0.0, float("inf"): 0.0}, None),
        ({0.1: 100.0, float("inf"): 100.0}, 0.095),
        ({0.1: 0.0, 0.2: 100.0, float("inf"): 100.0}, 0.195),
        # Beyond the last bound nothing is known but that it is beyond.
        ({0.1: 1.0, 0.2: 2.0, float("inf"): 100.0}, 0.2),
        # Buckets that were read while they changed need not add up.
        ({0.1: 99.0, 0.2: 90.0, float("inf"): 100.0}, pytest.approx(0.0959, abs=1e-3)),
    ],
)
def test_a_percentile_from_buckets(cumulated: dict[float, float], value: float | None) -> None:
    found = quantile(cumulated, 0.95)
    assert found == (value if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    "text",
    [
        'http_requests_total{path="/a\\"}b",x="1,2"} 3',
        'http_requests_total{path="/a b"} 3 1700000000000',
        'http_requests_total{path="/"} 3 # {trace_id="x"} 1.0 17.0',
        "http_requests_total 3e0",
        "  http_requests_total\t3",
        'http_requests_total{path="/",} 3\r\n# EOF',
        "nonsense {{{\nhttp_requests_total 3\nhttp_requests_total NaN\nhttp_requests_total -1",
    ],
)
def test_whatever_form_a_line_has_within_the_rules(text: str) -> None:
    assert sum(read(text).requests.values()) == 3.0


@pytest.mark.parametrize(
    "text",
    ["", "<html>not found</html>", "up 1\n", "http_requests_total NaN", "http_requests_total7"],
)
def test_what_has_no_requests_in_it_is_refused_with_the_place_to_look(text: str) -> None:
    with pytest.raises(ValueError, match=r"no requests among \d metrics; docs/nfr\.md"):
        read(text)


@settings(max_examples=50)
@given(st.text('http_requests_total{}="\\,. 017#\n', max_size=100))
def test_no_text_breaks_the_reader(text: str) -> None:
    found = read(f"{text}\nhttp_requests_total 1\n", ("/",))
    assert traffic(found, found, 1_000) == Traffic(0.0, None)


@pytest.mark.parametrize(
    "hostile",
    [
        'http_requests_total{a="' + "\\" * 200_001 + '{"' * 50_000,
        "http_requests_total{" + "a" * 300_000 + '="/"} 2',
        "http_requests_total{" + '"' * 300_000 + "} 2",
        "a" * 300_000,
        "http_requests_total" + " " * 300_000,
        "http_requests_total{" + 'a="b' * 100_000,
    ],
)
def test_a_long_line_is_read_in_time_that_grows_with_it_and_not_faster(hostile: str) -> None:
    """A form that goes back over what it read would not end within the life of this test."""
    assert sum(read(f"{hostile}\nhttp_requests_total 2\n", ("/x",)).requests.values()) in {2.0, 4.0}
