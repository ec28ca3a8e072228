"""Tables for eyes: aligned, as wide as allowed, and never painted by what users wrote."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import yaml

from holdfast.cli.errors import Trouble
from holdfast.cli.output import (
    FORMS,
    TABLES,
    Column,
    View,
    clean,
    draw,
    draw_fields,
    emit,
    emit_json,
    emit_line,
    emit_list,
    emit_one,
    row_limit,
    width_of,
)
from holdfast.cli.progress import bar
from holdfast.cli.sources import Found
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


@pytest.mark.parametrize(
    "text", ["\x1b[31mred", "bell\x07", "one\rtwo", "nul\0", "a\x9bb", "a\x1fb"]
)
def test_control_characters_of_users_never_reach_the_terminal(text: str) -> None:
    assert clean(text).isprintable()


@pytest.mark.parametrize(
    ("text", "shown"),
    [("first\nsecond", "first"), ("\n\nthird", "third"), ("\n \n", "-"), ("\n", "-")],
)
def test_only_the_first_line_of_a_text_is_in_a_cell(text: str, shown: str) -> None:
    assert clean(text) == shown


@pytest.mark.parametrize("text", ["日本\u3000語", "日本\u00a0語", "日本\t語"])
def test_a_space_of_any_script_is_a_space(text: str) -> None:
    assert clean(text) == "日本 語"


def test_accents_take_no_place_of_their_own() -> None:
    assert width_of("re\u0301sume\u0301") == width_of("résumé") == 6


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
    assert row_limit(None, "table") == row_limit(None, "wide") == 50
    Found([{}] * 50, 60).tell("jobs")
    assert capsys.readouterr().err == "50 of 60 jobs; --limit 0 shows all\n"


def test_a_program_gets_everything_unless_it_asks_for_less() -> None:
    assert row_limit(None, "json") == row_limit(0, "table") == 0
    assert row_limit(7, "jsonl") == 7
    with pytest.raises(Trouble):
        row_limit(-1, "table")


def test_a_list_that_nobody_counted_says_that_there_is_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Found([{}] * 50, None).tell("jobs")
    assert capsys.readouterr().err == "the first 50 jobs; --limit 0 shows all\n"
    Found([{}] * 50, 50).tell("jobs")
    assert capsys.readouterr().err == ""


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


def stream(encoding: str, errors: str = "strict") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors=errors, newline="")


def text_of(written: io.TextIOWrapper) -> str:
    raw = written.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode(written.encoding)


@pytest.mark.parametrize(
    ("encoding", "text", "shown"),
    [
        ("ascii", "a snowman ☃", "a snowman \\u2603"),
        ("latin-1", "naïve ☃", "naïve \\u2603"),
        ("utf-8", "naïve ☃", "naïve ☃"),
        # A file whose name is no text: Python keeps its bytes as such letters.
        ("utf-8", "data/\udcff", "data/\\udcff"),
    ],
)
def test_letters_that_a_terminal_does_not_have_are_spelled_out(
    monkeypatch: pytest.MonkeyPatch, encoding: str, text: str, shown: str
) -> None:
    monkeypatch.setattr("sys.stdout", stream(encoding))
    emit(text)
    assert text_of(sys.stdout) == shown  # type: ignore[arg-type]


@pytest.mark.parametrize("write", [emit_json, emit_line])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_the_same_in_every_encoding(
    monkeypatch: pytest.MonkeyPatch, encoding: str, write: Callable[[View], None]
) -> None:
    value = {"name": "naïve ☃ 😀"}
    monkeypatch.setattr("sys.stdout", stream(encoding))
    write(value)
    assert json.loads(text_of(sys.stdout)) == {"schema": 1, **value}  # type: ignore[arg-type]


def test_a_closed_stream_is_nobody_who_reads(
    monkeypatch: pytest.MonkeyPatch, run, folder: Path
) -> None:
    monkeypatch.setattr("sys.stdout", None)
    assert run("job", "list", "--data", folder).code == 0
    monkeypatch.undo()
    monkeypatch.setattr("sys.stderr", None)
    # A message for a person is not data, even where it has nowhere else to go.
    assert run("job", "list", "--data", folder / "nowhere") == (4, "", "")


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_leaves_the_data_where_it_belongs(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, file = Screen(), io.StringIO()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr("sys.stdout", file)
    with bar("loading", 3) as advance:
        emit("data\n")
        advance(3)
    assert file.getvalue() == "data\n"
    assert "loading" in screen.getvalue()
    assert "data" not in screen.getvalue()


@pytest.mark.parametrize(("choice", "painted"), [("never", False), ("auto", True)])
def test_a_bar_has_no_colours_where_they_were_declined(
    monkeypatch: pytest.MonkeyPatch, choice: str, painted: bool
) -> None:
    screen = Screen()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("sys.stderr", screen)
    context = click.Context(click.Command("holdfast"))
    context.params["color"] = choice
    with context, bar("loading", 3) as advance:
        advance(3)
    assert ("\x1b[3" in screen.getvalue()) is painted


def test_yaml_says_what_json_says_and_text_stays_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view: View = {
        "id": "17", "name": "no", "time": "2026-01-01T00:00:00Z", "state": "1e3", "count": 3,
        "labels": {"größe": "\u2603: #x"}, "error": None, "text": "a\nb", "tasks": [],
    }  # fmt: skip
    emit_one("yaml", view, "")
    told = capsys.readouterr().out
    assert told.startswith("schema: 1\n")
    assert yaml.safe_load(told) == {"schema": 1, **view}
    emit_list("yaml", "jobs", [view, view], "")
    assert yaml.safe_load(capsys.readouterr().out) == {"schema": 1, "jobs": [view, view]}


def test_every_form_is_known_to_lists_and_to_single_things(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for form in FORMS:
        emit_list(form, "jobs", [{"id": "1"}], "table\n")
        listed = capsys.readouterr().out
        emit_one(form, {"id": "1"}, "text\n")
        shown = capsys.readouterr().out
        assert bool(listed) == bool(shown) == (form != "quiet")
        assert ("table" in listed) == (form in TABLES)
