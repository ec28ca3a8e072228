"""What a command prints: data to stdout as a table or JSON, everything else to stderr.

JSON and YAML carry `"schema": 1`; their names stay. Tables are for eyes: aligned, as wide as the
terminal or $COLUMNS allows, whole when piped. Text of users is shown without control characters,
since a name must not be able to paint the terminal.
"""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, Final
from unicodedata import category, east_asian_width

import click

from holdfast.cli.errors import USAGE, Trouble, say

SCHEMA: Final = 1
FORMS: Final = ("table", "wide", "json", "jsonl", "yaml", "name", "quiet")
PIPE_CLOSED: Final = 141
TABLES: Final = ("table", "wide")
TABLE_ROWS: Final = 50

COLORS: Final = {
    "SUCCEEDED": "32",
    "DONE": "32",
    "RUNNING": "36",
    "IN_PROGRESS": "36",
    "LEASED": "36",
    "COMMITTED": "36",
    "FAILED": "31",
    "QUARANTINED": "31",
    "ABORTED": "31",
    "KILLED": "33",
    "UNSCHEDULABLE": "33",
    "PENDING": "2",
    "WAITING": "2",
    "BUSY": "36",
    "IDLE": "32",
    "CORDONED": "33",
    "DRAINING": "33",
    "DRAINED": "33",
    "SILENT": "31",
    "GONE": "90",
    "PAUSED": "33",
    "READY": "2",
    "DELIVERING": "36",
    "PARKED": "31",
    "DELIVERED": "32",
    "DISCARDED": "33",
    "GOOD": "32",
    "POOR": "33",
    "BAD": "31",
    "available": "32",
    "applying": "36",
    "progressing": "36",
    "degraded": "31",
    "deleting": "33",
    "pending": "2",
}

View = dict[str, Any]


class Column:
    """One column of a table. An `elastic` one gives way when the terminal is narrow."""

    def __init__(self, title: str, *, right: bool = False, elastic: bool = False) -> None:
        self.title = title
        self.right = right
        self.elastic = elastic


def emit(text: str) -> None:
    """Write to stdout, at once. A reader that has seen enough ends us quietly.

    Letters that the encoding of the terminal does not have are spelled out: `\\u2603`.
    """
    try:
        _write(text)
    except UnicodeEncodeError as error:
        _write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))


def _write(text: str) -> None:
    if sys.stdout is None:
        # It was closed before we began, so nobody wants to read.
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise unread() from None


def unread() -> Exception:
    """How a command ends whose reader has seen enough."""
    # Python would complain again when it flushes at exit, so it is given somewhere to write.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return click.exceptions.Exit(PIPE_CLOSED)


def typed(path: Path) -> str:
    """A path as it stands in a command that is named, so that it can be typed as it is read."""
    return quote(str(path))


def note(text: str) -> None:
    """Something beside the data, for a person."""
    say(text)


def emit_json(value: View) -> None:
    _write_json(value, indent=2)


def emit_line(value: View) -> None:
    _write_json(value, indent=None)


def _write_json(value: View, indent: int | None) -> None:
    document = {"schema": SCHEMA, **value}
    try:
        _write(json.dumps(document, indent=indent, ensure_ascii=False) + "\n")
    except UnicodeEncodeError:
        # JSON has a spelling of its own for letters that the encoding does not have.
        _write(json.dumps(document, indent=indent) + "\n")


def emit_yaml(value: View) -> None:
    """The same as JSON, in the form that people read. Times and names stay text."""
    import yaml

    document = {"schema": SCHEMA, **value}
    emit(yaml.safe_dump(document, allow_unicode=True, sort_keys=False, width=10_000))


NAMING: Final = ("id", "name", "fingerprint", "position", "log_id")
"""What things are called by; the first that one has counts."""


def emit_list(form: str, plural: str, views: Iterable[View], table: str) -> None:
    """The same list in the form that was asked for. `table` is drawn by the caller."""
    if form in WHOLE:
        WHOLE[form]({plural: list(views)})
    elif form == "jsonl":
        for view in views:
            emit_line(view)
    elif form == "name":
        # What was seen and never recorded has no position to be called by.
        names = (name_of(view) for view in views)
        emit("".join(f"{name}\n" for name in names if name is not None))
    elif form != "quiet":
        emit(table)


def name_of(view: View) -> object:
    """What a thing is called where nothing else is wanted."""
    if "apiVersion" in view:
        return view["metadata"]["name"]
    field = next((field for field in NAMING if field in view), None)
    if field is None:
        raise Trouble("this has no name of its own; -o json tells all of it.", USAGE)
    return view[field]


def emit_one(form: str, view: View, text: str) -> None:
    if form in FOR_PROGRAMS:
        FOR_PROGRAMS[form](view)
    elif form == "name":
        emit(f"{name_of(view)}\n")
    elif form != "quiet":
        emit(text)


WHOLE: Final = {"json": emit_json, "yaml": emit_yaml}
FOR_PROGRAMS: Final = {**WHOLE, "jsonl": emit_line}


def draw(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> str:
    """An aligned table with a heading, coloured where colours are wanted."""
    cells = [[clean(cell) for cell in row] for row in rows]
    titles = [column.title for column in columns]
    widths = [max(map(width_of, column)) for column in zip(titles, *cells, strict=True)]
    _squeeze(columns, widths, terminal_width())
    paint = wants_color()
    lines = [_line(columns, titles, widths, paint="1" if paint else "")]
    for row in cells:
        colored = [COLORS.get(cell, "") if paint else "" for cell in row]
        lines.append(_line(columns, row, widths, paints=colored))
    return "".join(lines)


def draw_fields(fields: Iterable[tuple[str, object]]) -> str:
    """Names and values below each other; those without a value are left out."""
    told = [(name, clean(value)) for name, value in fields if value not in (None, "", {}, [])]
    if not told:
        return ""
    wide = max(len(name) for name, _ in told)
    paint = wants_color()
    lines = []
    for name, value in told:
        code = COLORS.get(value.partition(" ")[0], "") if paint else ""
        lines.append(f"{name.ljust(wide)}  {_painted(value, code)}\n")
    return "".join(lines)


def _line(
    columns: Sequence[Column],
    cells: Sequence[str],
    widths: Sequence[int],
    *,
    paint: str = "",
    paints: Sequence[str] = (),
) -> str:
    parts = []
    for place, (column, cell, width) in enumerate(zip(columns, cells, widths, strict=True)):
        text = _cut(cell, width)
        space = " " * (width - width_of(text))
        code = paints[place] if paints else paint
        drawn = _painted(text, code)
        parts.append(space + drawn if column.right else drawn + space)
    return "  ".join(parts).rstrip() + "\n"


def _squeeze(columns: Sequence[Column], widths: list[int], limit: int | None) -> None:
    """Take what is too much from the elastic columns, the widest first, but leave a few letters."""
    if limit is None:
        return
    elastic = [place for place, column in enumerate(columns) if column.elastic]
    while sum(widths) + 2 * (len(widths) - 1) > limit and elastic:
        widest = max(elastic, key=lambda place: widths[place])
        if widths[widest] <= max(8, len(columns[widest].title)):
            return
        widths[widest] -= 1


def _cut(text: str, width: int) -> str:
    if width_of(text) <= width:
        return text
    kept = ""
    for letter in text:
        if width_of(kept + letter) > width - 1:
            break
        kept += letter
    return kept + "…"


def _painted(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if code and text else text


def counted(count: int, noun: str) -> str:
    """So many of them, as one says it."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def clean(value: object) -> str:
    """The first line with anything in it, without control characters. Nothing is shown as `-`."""
    text = "" if value is None else str(value)
    if not text.isprintable():
        text = next((line for line in text.splitlines() if line.strip()), "")
        # A space is a space in any script; a tab would tear the column.
        text = "".join(" " if _is_blank(letter) else _shown(letter) for letter in text)
    return text or "-"


def clean_text(text: str) -> str:
    """Several lines without control characters."""
    lines = text.splitlines()
    return "\n".join("".join(x if _is_blank(x) else _shown(x) for x in line) for line in lines)


def _is_blank(letter: str) -> bool:
    return letter == "\t" or category(letter) == "Zs"


def _shown(letter: str) -> str:
    return letter if letter.isprintable() else "�"


def width_of(text: str) -> int:
    """How many places of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_places(letter) for letter in text)


def _places(letter: str) -> int:
    if category(letter) in ("Mn", "Me"):
        # An accent stands on the letter before it.
        return 0
    return 2 if east_asian_width(letter) in "WF" else 1


def terminal_width() -> int | None:
    """How wide a table may be; None where nobody said, as in a pipe."""
    told = os.environ.get("COLUMNS", "")
    if told.isascii() and told.isdigit() and int(told) > 0:
        return int(told)
    if is_terminal():
        try:
            return os.get_terminal_size(sys.stdout.fileno()).columns or None
        except OSError:
            return None
    return None


def is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def wants_color() -> bool:
    """`--color` first, then NO_COLOR, then FORCE_COLOR, then whether it is a terminal."""
    if refuses_color():
        return False
    if _chosen_color() == "always" or os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal() and os.environ.get("TERM") != "dumb"


def refuses_color() -> bool:
    """Whether colours were declined, wherever they would be drawn."""
    chosen = _chosen_color()
    return chosen == "never" or (chosen == "auto" and bool(os.environ.get("NO_COLOR")))


def _chosen_color() -> str:
    context = click.get_current_context(silent=True)
    return "auto" if context is None else context.find_root().params.get("color", "auto")


def chosen_states(wanted: Sequence[str], known: Sequence[str]) -> frozenset[str]:
    """The states a `--state` option names, in any case, several with commas; all where none."""
    names = [part.strip().upper() for text in wanted for part in text.split(",") if part.strip()]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.BadParameter(
            f"{unknown[0]} is no state; there are {', '.join(known)}", param_hint="--state"
        )
    return frozenset(names or known)


def row_limit(limit: int | None, form: str) -> int:
    """How many of a list are shown, 0 for all. A table for eyes has a limit of its own."""
    if limit is None:
        return TABLE_ROWS if form in TABLES else 0
    if limit < 0:
        raise Trouble(f"--limit {limit} is less than nothing; 0 shows all.", USAGE)
    return limit
