"""`holdfast bench` says what it measured, plainly and in a form that programs can read."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.cli.bench import bench, document_of, table_of
from holdfast.cli.benchmarks.machine import Machine, describe, this_machine
from holdfast.cli.benchmarks.row import (
    Figure,
    Row,
    RowFailed,
    Values,
    at_least,
    at_most,
)
from holdfast.cli.benchmarks.tally import Tallies, spell, spell_spread, tally_rows

MACHINE = Machine(cores=2, python="3.11.2", system="Linux x86_64", fdatasync_p50_ms=0.123)


def unused(size: int, folder: Path) -> Values:
    raise RowFailed("this row is measured by the test itself")


ROW = Row(
    name="made",
    what="made for this test",
    figures=(
        Figure("speed", "lives", "lives/s", at_least(100)),
        Figure("space", "bytes of one", "bytes", at_most(2)),
        Figure("beside", "to compare with", "×"),
    ),
    size=1_000,
    quick_size=10,
    run=unused,
)


class Script:
    """Gives each run the values written for it, and remembers what was asked."""

    def __init__(self, *runs: tuple[float, float, float]) -> None:
        self._runs = iter(runs)
        self.sizes: list[int] = []

    def __call__(self, row: Row, size: int, folder: Path) -> Values:
        self.sizes.append(size)
        speed, space, beside = next(self._runs)
        return {"speed": speed, "space": space, "beside": beside}


def tallied(script: Script, *, quick: bool = False) -> tuple[Tallies, list[str]]:
    told: list[str] = []
    measured = tally_rows(
        [ROW], repeat=3, quick=quick, folder=Path(), measure=script, tell=told.append
    )
    return measured, told


THREE = ((90.0, 2.0, 1.0), (250.0, 1.0, 7.0), (110.0, 3.5, 3.0))


def test_the_median_decides_and_the_spread_is_shown() -> None:
    measured, _ = tallied(Script(*THREE))
    speed, space, beside = measured.tallies
    assert [speed.median, space.median, beside.median] == [110, 2, 3]
    assert [speed.verdict, space.verdict, beside.verdict] == ["met", "met", "no bar"]
    assert spell_spread(speed.values) == "90.0 – 250"


def test_a_bar_that_is_missed_is_said_to_be_missed() -> None:
    measured, _ = tallied(Script((99, 3, 1), (99, 3, 1), (500, 1, 1)))
    assert [tally.verdict for tally in measured.tallies] == ["not met", "not met", "no bar"]


def test_a_quick_run_takes_the_small_size_and_is_not_judged() -> None:
    script = Script(*THREE)
    measured, _ = tallied(script, quick=True)
    assert script.sizes == [10, 10, 10]
    assert [tally.verdict for tally in measured.tallies] == ["not judged", "not judged", "no bar"]
    assert "no bar is meant for" in table_of(MACHINE, measured, repeat=3, quick=True)


def test_every_run_is_announced() -> None:
    _, told = tallied(Script(*THREE))
    assert told == [f"made {number}/3: made for this test" for number in (1, 2, 3)]
    _, told = tallied(Script(*THREE), quick=True)
    # What a row says of itself is of its full size.
    assert told[0] == f"made 1/3: made for this test, here {ROW.quick_size:,}"


def test_a_row_that_fails_is_told_and_does_not_hold_up_the_others() -> None:
    def measure(row: Row, size: int, folder: Path) -> Values:
        if row.name == "broken":
            raise RowFailed("no disk")
        return {"speed": 100.0, "space": 1.0, "beside": 1.0}

    broken = Row(name="broken", what="", figures=ROW.figures, size=1, quick_size=1, run=unused)
    told: list[str] = []
    measured = tally_rows(
        [broken, ROW], repeat=3, quick=False, folder=Path(), measure=measure, tell=told.append
    )
    assert [(failure.row, failure.error) for failure in measured.failures] == [
        ("broken", "no disk")
    ]
    assert {tally.row for tally in measured.tallies} == {"made"}
    assert "broken failed: no disk" in told
    assert "broken failed: no disk\n" in table_of(MACHINE, measured, repeat=3, quick=False)


def test_the_table_shows_figure_median_spread_bar_verdict_and_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    measured, _ = tallied(Script(*THREE))
    assert table_of(MACHINE, measured, repeat=3, quick=False) == (
        "ROW   FIGURE           MEDIAN  UNIT          SPREAD    BAR  VERDICT\n"
        "made  lives               110  lives/s   90.0 – 250  ≥ 100  met\n"
        "made  bytes of one       2.00  bytes    1.00 – 3.50    ≤ 2  met\n"
        "made  to compare with    3.00  ×        1.00 – 7.00      -  no bar\n"
        "\n"
        "2 cores, Linux x86_64, Python 3.11.2, fdatasync p50 0.12 ms\n"
        "median of 3 runs\n"
    )


def test_the_document_holds_the_same_and_every_single_run() -> None:
    measured, _ = tallied(Script(*THREE))
    document = json.loads(json.dumps(document_of(MACHINE, measured, repeat=3, quick=False)))
    assert document["machine"] == {
        "cores": 2, "python": "3.11.2", "system": "Linux x86_64", "fdatasync_p50_ms": 0.123,
    }  # fmt: skip
    assert document["repeat"] == 3
    assert document["quick"] is False
    assert document["failures"] == []
    speed, _, beside = document["figures"]
    assert speed == {
        "row": "made", "name": "speed", "what": "lives", "unit": "lives/s", "size": 1_000,
        "median": 110.0, "min": 90.0, "max": 250.0, "values": [90.0, 250.0, 110.0],
        "bar": {"limit": 100.0, "at_least": True}, "met": True,
    }  # fmt: skip
    assert beside["bar"] is None
    assert beside["met"] is None


@pytest.mark.parametrize(
    ("value", "text"),
    [(61_234.5, "61,234"), (100.0, "100"), (99.94, "99.9"), (10.0, "10.0"), (1.3, "1.30")],
)
def test_a_number_has_as_many_digits_as_a_reader_compares(value: float, text: str) -> None:
    assert spell(value) == text


def test_the_machine_is_described_by_what_decides_the_figures(tmp_path: Path) -> None:
    machine = this_machine(tmp_path, syncs=3)
    assert machine.cores >= 1
    assert machine.fdatasync_p50_ms > 0
    assert "fdatasync p50" in describe(machine)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["--repeat", "2"], ["--dir", "/there/is/no/such/folder"]]
)
def test_wrong_usage_ends_with_2_before_anything_is_measured(arguments: list[str]) -> None:
    answer = CliRunner().invoke(bench, arguments)
    assert answer.exit_code == 2
    assert "Usage:" in answer.output
