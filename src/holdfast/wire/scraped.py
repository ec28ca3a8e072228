"""What a function tells of its own requests, in the text form of Prometheus or OpenMetrics: how
many there were, and how long they took.

Names differ between libraries, so several are understood, first of all those in the tables here,
then any with one of the endings. Of those that are offered exactly one counter and one duration
are used, whatever their labels: two names may count the same request. Rates are differences
between two readings; a counter that went back began anew. A line that cannot be understood is
passed over, since it may be about anything.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

from msgspec import Struct

Key = TypeVar("Key")

COUNTERS: Final = (
    "http_requests_total",
    "http_server_requests_total",
    "requests_total",
    "flask_http_request_total",
    "starlette_requests_total",
    "grpc_server_handled_total",
)
COUNTER_ENDING: Final = "_requests_total"

DURATIONS: Final = (
    "http_request_duration_seconds",
    "http_server_request_duration_seconds",
    "http_server_requests_seconds",
    "request_duration_seconds",
    "request_latency_seconds",
    "flask_http_request_duration_seconds",
    "starlette_request_duration_seconds",
    "grpc_server_handling_seconds",
    "http_request_duration_milliseconds",
    "http_server_duration_milliseconds",
)
DURATION_ENDINGS: Final = (
    "_request_duration_seconds",
    "_request_latency_seconds",
    "_request_duration_milliseconds",
)
"""Histograms or summaries; both offer a `_count` and a `_sum`, the first `_bucket` as well."""

MILLISECONDS: Final = "_milliseconds"
PATH_LABELS: Final = (
    *("path", "handler", "route", "uri", "url", "endpoint", "http_route", "http_target"),
)
QUANTILE: Final = 0.95

_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_LINE: Final = re.compile(
    rf"([a-zA-Z_:][a-zA-Z0-9_:]*+)[ \t]*+(?:(?<=[ \t])|(?=\{{))"
    rf"(?:\{{((?:[^\"}}]|{_QUOTED})*+)\}}[ \t]*+)?(\S++)"
)
_LABEL: Final = re.compile(rf"(?<![a-zA-Z0-9_])([a-zA-Z_][a-zA-Z0-9_]*+)[ \t]*+=[ \t]*+({_QUOTED})")


class Reading(Struct, frozen=True, kw_only=True):
    """What had been counted at one moment, by series. `buckets` has how many took at most so many
    seconds, over all series. Empty is what is not offered."""

    requests: dict[str, float]
    measured: dict[str, float]
    seconds: dict[str, float]
    buckets: dict[float, float]


class Traffic(Struct, frozen=True, gc=False):
    """What a function answered between two readings; None is what cannot be told. `latency_ms` is
    the 95th percentile where there are buckets to tell it from, else the mean."""

    requests_per_s: float | None = None
    latency_ms: float | None = None


def read(text: str, ignored_paths: tuple[str, ...] = ()) -> Reading:
    """What a function offers, without what counts the questions of others (probes, this one):
    series that say in a label that they are of one of `ignored_paths`. `ValueError`: it offers
    neither a counter nor a duration of requests."""
    families: dict[str, dict[str, float]] = {}
    for name, labels, value in _samples(text):
        if not _is_of_paths(labels, ignored_paths):
            series = families.setdefault(name, {})
            series[labels] = series.get(labels, 0.0) + value
    duration = _chosen(_families_timed(families), DURATIONS, DURATION_ENDINGS)
    counter = _chosen(families, COUNTERS, (COUNTER_ENDING,))
    if not counter and not duration:
        raise ValueError(f"no requests among {len(families)} metrics; docs/nfr.md lists the names")
    scale = 0.001 if duration.endswith(MILLISECONDS) else 1.0
    measured = families.get(f"{duration}_count", {})
    return Reading(
        requests=families[counter] if counter else measured,
        measured=measured,
        seconds={
            labels: value * scale for labels, value in families.get(f"{duration}_sum", {}).items()
        },
        buckets=_buckets(families.get(f"{duration}_bucket", {}), scale),
    )


def traffic(before: Reading, now: Reading, span_ms: int) -> Traffic:
    """What happened between two readings that are so long apart."""
    if span_ms <= 0:
        return Traffic()
    rate = 1_000 * growth(before.requests, now.requests) / span_ms if now.requests else None
    measured = growth(before.measured, now.measured)
    if measured <= 0:
        return Traffic(rate, None)
    latency = quantile(growths(before.buckets, now.buckets), QUANTILE)
    if latency is None and now.seconds:
        latency = growth(before.seconds, now.seconds) / measured
    return Traffic(rate, None if latency is None else 1_000 * latency)


def growth(before: Mapping[str, float], now: Mapping[str, float]) -> float:
    """By how much all series together grew. One that was not there before began at zero."""
    return sum(growths(before, now).values())


def growths(before: Mapping[Key, float], now: Mapping[Key, float]) -> dict[Key, float]:
    grown = {}
    for key, value in now.items():
        known = before.get(key, 0.0)
        grown[key] = value - known if value >= known else value
    return grown


def quantile(cumulated: Mapping[float, float], share: float) -> float | None:
    """The value below which this share lies, as far as buckets tell: within one it is taken to
    grow evenly, and of the last, that has no end, only where it begins is known. None where there
    are no buckets, or nothing in them."""
    bounds = sorted(cumulated)
    if not bounds or not math.isinf(bounds[-1]) or len(bounds) == 1:
        return None
    rank = share * cumulated[bounds[-1]]
    if rank <= 0:
        return None
    below, under = 0.0, 0.0
    for bound in bounds[:-1]:
        within = cumulated[bound]
        if within >= rank:
            inside = max(within - under, rank - under)
            return below + (bound - below) * (rank - under) / inside
        below, under = bound, within
    return below


def _samples(text: str) -> Iterator[tuple[str, str, float]]:
    for line in text.splitlines():
        found = _LINE.match(line.strip())
        if found is None:
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        if math.isfinite(value) and value >= 0:
            yield found[1], found[2] or "", value


def _is_of_paths(labels: str, paths: tuple[str, ...]) -> bool:
    if not paths or not labels:
        return False
    return any(
        name in PATH_LABELS and value[1:-1] in paths for name, value in _LABEL.findall(labels)
    )


def _families_timed(families: Mapping[str, object]) -> dict[str, bool]:
    """The names that have a count and a sum: histograms and summaries."""
    timed = (name.removesuffix("_count") for name in families if name.endswith("_count"))
    return {name: True for name in timed if f"{name}_sum" in families}


def _chosen(
    offered: Mapping[str, object], known: tuple[str, ...], endings: tuple[str, ...]
) -> str:
    for name in known:
        if name in offered:
            return name
    others = sorted(name for name in offered if name.endswith(endings))
    return others[0] if others else ""


def _buckets(series: Mapping[str, float], scale: float) -> dict[float, float]:
    cumulated: dict[float, float] = {}
    for labels, count in series.items():
        bound = dict(_LABEL.findall(labels)).get("le", '""')
        try:
            within = float(bound[1:-1]) * scale
        except ValueError:
            continue
        cumulated[within] = cumulated.get(within, 0.0) + count
    return cumulated
