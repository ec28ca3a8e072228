"""Tables for eyes: aligned, as wide as allowed, and never painted by what users wrote."""

import pytest

from holdfast.cli.output import Column, clean, draw, draw_fields, shorten, width_of
from holdfast.cli.spans import age, size, span

COLUMNS = [Column("JOB"), Column("NAME", elastic=True), Column("DONE", right=True)]


def test_columns_are_as_wide_as_their_widest_cell_and_numbers_end_together() -> None:
    drawn = draw(COLUMNS, [["1", "resize", "3/4"], ["12", "a", "10/4000"]])
    assert drawn == (
        "JOB  NAME       DONE\n"
        "1    resize      3/4\n"
        "12   a       10/4000\n"
    )  # fmt: skip


def test_nothing_is_shown_as_a_dash() -> None:
    assert draw([Column("A"), Column("B")], [[None, ""]]) == "A  B\n-  -\n"


def test_zero_is_something() -> None:
    assert draw([Column("EXIT")], [[0]]) == "EXIT\n0\n"


def test_a_narrow_terminal_takes_from_the_elastic_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    drawn = draw(COLUMNS, [["1", "a name that goes on and on and on", "3/4"]])
    assert drawn.splitlines()[1] == "1    a name that goes o…   3/4"
    assert max(map(len, drawn.splitlines())) <= 30


def test_without_a_terminal_or_a_width_nothing_is_cut() -> None:
    name = "n" * 500
    assert name in draw(COLUMNS, [["1", name, "3/4"]])


def test_wide_letters_take_two_places() -> None:
    drawn = draw(COLUMNS, [["1", "日本", "3/4"], ["2", "abcd", "3/4"]])
    first, second = drawn.splitlines()[1:]
    assert first == "1    日本   3/4"
    assert width_of(first) == width_of(second)


@pytest.mark.parametrize("text", ["\x1b[31mred", "bell\x07", "one\rtwo", "nul\0", "a\x9bb"])
def test_control_characters_of_users_never_reach_the_terminal(text: str) -> None:
    assert clean(text).isprintable()


def test_only_the_first_line_of_a_text_is_in_a_cell() -> None:
    assert clean("first\nsecond") == "first"


def test_fields_without_a_value_are_left_out() -> None:
    assert draw_fields([("job", 1), ("key", None), ("state", "RUNNING")]) == (
        "job    1\nstate  RUNNING\n"
    )


def test_colours_are_absent_in_a_pipe_and_present_when_forced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [["SUCCEEDED"]]
    assert "\x1b" not in draw([Column("STATE")], rows)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[32mSUCCEEDED\x1b[0m" in draw([Column("STATE")], rows)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in draw([Column("STATE")], rows)


def test_colour_does_not_move_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    columns, rows = [Column("STATE"), Column("N")], [["RUNNING", "1"], ["SUCCEEDED", "2"]]
    plain = draw(columns, rows)
    monkeypatch.setenv("FORCE_COLOR", "1")
    painted = draw(columns, rows)
    for code in ("1", "32", "36", "0"):
        painted = painted.replace(f"\x1b[{code}m", "")
    assert painted == plain


def test_a_table_shows_fifty_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(shorten(range(60), None, "table", "jobs")) == 50
    assert capsys.readouterr().err == "50 of 60 jobs; --limit 0 shows all\n"


def test_a_program_gets_everything_unless_it_asks_for_less() -> None:
    assert len(shorten(range(60), None, "json", "jobs")) == 60
    assert len(shorten(range(60), 0, "table", "jobs")) == 60
    assert len(shorten(range(60), 7, "jsonl", "jobs")) == 7


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0ms"), (0, "0ms"), (999, "999ms"), (1_000, "1s"), (59_999, "59s"), (60_000, "1m"),
        (3_599_999, "59m"), (3_600_000, "1h"), (172_799_999, "47h"), (172_800_000, "2d"),
    ],
)  # fmt: skip
def test_an_age_is_told_in_its_coarsest_unit(ms: int, text: str) -> None:
    assert age(ms) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0ms"), (250, "250ms"), (1_500, "1.5s"), (90_000, "90s"), (5_400_000, "1h30m")],
)
def test_a_span_can_be_read_back_as_a_setting(ms: int, text: str) -> None:
    assert span(ms) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1_023, "1023 B"), (1_024, "1.0 KiB"), (1_572_864, "1.5 MiB"), (2**40, "1.0 TiB")],
)
def test_a_size_is_told_in_powers_of_two(count: int, text: str) -> None:
    assert size(count) == text
