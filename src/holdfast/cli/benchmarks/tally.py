"""Several runs of a row as one answer: the median, how far the runs lie apart, the verdict."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median

from msgspec import Struct

from holdfast.cli.benchmarks.row import Bar, Figure, Row, RowFailed, Values

Measure = Callable[[Row, int, Path], Values]
"""Runs a row once, with this many tasks, in this folder."""

MET, NOT_MET, NO_BAR, NOT_JUDGED = "met", "not met", "no bar", "not judged"


class Tally(Struct, frozen=True):
    """One figure over all its runs. A quick run is not judged: the bars are for full sizes."""

    row: str
    figure: Figure
    size: int
    values: tuple[float, ...]
    is_quick: bool

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def is_met(self) -> bool | None:
        """None where there is nothing to judge."""
        bar = self.figure.bar
        return None if bar is None or self.is_quick else bar.is_met_by(self.median)

    @property
    def verdict(self) -> str:
        if self.figure.bar is None:
            return NO_BAR
        if self.is_met is None:
            return NOT_JUDGED
        return MET if self.is_met else NOT_MET


class Failure(Struct, frozen=True):
    """A row that could not be measured, and why."""

    row: str
    error: str


class Tallies(Struct, frozen=True):
    tallies: tuple[Tally, ...]
    failures: tuple[Failure, ...]


def tally_rows(
    rows: Iterable[Row],
    *,
    repeat: int,
    quick: bool,
    folder: Path,
    measure: Measure,
    tell: Callable[[str], None],
) -> Tallies:
    """Run every row so many times. One that fails is told and does not hold up the others."""
    tallies: list[Tally] = []
    failures: list[Failure] = []
    for row in rows:
        size = row.quick_size if quick else row.size
        what = f"{row.what}, here {size:,}" if quick else row.what
        try:
            runs: list[Values] = []
            for number in range(1, repeat + 1):
                tell(f"{row.name} {number}/{repeat}: {what}")
                runs.append(measure(row, size, folder))
        except RowFailed as error:
            tell(f"{row.name} failed: {error}")
            failures.append(Failure(row.name, str(error)))
            continue
        tallies.extend(
            Tally(row.name, figure, size, tuple([run[figure.name] for run in runs]), quick)
            for figure in row.figures
        )
    return Tallies(tuple(tallies), tuple(failures))


def spell(value: float) -> str:
    """A number with as many digits as a reader needs to compare it."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def spell_spread(values: Sequence[float]) -> str:
    return f"{spell(min(values))} – {spell(max(values))}"


def spell_bar(bar: Bar | None) -> str:
    if bar is None:
        return ""
    return f"{'≥' if bar.at_least else '≤'} {bar.limit:,g}"
