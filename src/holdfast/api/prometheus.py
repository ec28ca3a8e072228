"""Numbers in the text format that Prometheus reads."""

from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.core.histogram import Histogram

PREFIX: Final = "holdfast_"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[dict[str, str], float]


def told(
    name: str, kind: str, about: str, value: float | Iterable[Sample], *, prefix: str = PREFIX
) -> str:
    """One number, or several told apart by labels."""
    samples = [({}, value)] if isinstance(value, int | float) else value
    name = prefix + name
    return _about(name, kind, about) + "".join(_line(name, *sample) for sample in samples)


def told_histogram(
    name: str,
    about: str,
    found: Iterable[tuple[dict[str, str], Histogram]],
    *,
    prefix: str = PREFIX,
) -> str:
    """How often something was at most so much, by bounds."""
    name = prefix + name
    lines = [_about(name, "histogram", about)]
    for labels, histogram in found:
        count = 0
        for bound, count in histogram.cumulated():
            lines.append(_line(f"{name}_bucket", {**labels, "le": _bound(bound)}, count))
        lines.append(_line(f"{name}_sum", labels, histogram.total))
        lines.append(_line(f"{name}_count", labels, count))
    return "".join(lines)


def _about(name: str, kind: str, about: str) -> str:
    return f"# HELP {name} {about}\n# TYPE {name} {kind}\n"


def _bound(bound: float) -> str:
    return "+Inf" if bound == float("inf") else f"{bound:g}"


def _line(name: str, labels: Mapping[str, str], number: float) -> str:
    shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    where = f"{{{shown}}}" if shown else ""
    return f"{name}{where} {float(number):.15g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
