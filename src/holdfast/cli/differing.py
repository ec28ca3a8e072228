"""`holdfast diff`: what changed between two moments of a log, or what a file would change."""

from pathlib import Path
from typing import Any, Final

import click

from holdfast.cli.errors import USAGE, Trouble
from holdfast.cli.options import output_option, server_options
from holdfast.cli.output import TABLES, WHOLE, Column, View, counted, draw, emit, emit_line, note
from holdfast.cli.reading import Look, folder_option, moment_of, told_moment
from holdfast.coordinator.differing import difference
from holdfast.coordinator.inspect import Moment, open_folder

WORDS: Final = 4
"""So many fields or moves of one thing are told in a line of the table."""


def _moments(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> tuple[Any, ...]:
    return tuple(moment_of(context, option, value) for value in values)


@click.command()
@server_options
@folder_option("else the server is asked")
@click.option(
    "--at", "moments", multiple=True, callback=_moments, metavar="POSITION|TIME",
    help="Given once: what changed since then. Twice: between the two, in their order.",
)  # fmt: skip
@click.option(
    "-f", "--file", "files", multiple=True, metavar="FILE",
    help="What `holdfast apply -f FILE` would change, instead; - is what is piped in.",
)  # fmt: skip
@output_option
def diff(
    moments: tuple[Moment, ...], files: tuple[str, ...], data: Path | None, server: str | None,
    token_file: Path | None, form: str,
) -> int:  # fmt: skip
    """Say what changed between two moments: jobs and their tasks, schedules, limits, workers.

    What came and went in between is in neither moment; `holdfast transactions` has everything.

    With -f: what applying the file would change of runtimes. Exits 1 where it would change
    something.
    """
    if files:
        from holdfast.cli.manifest_diffs import would_change

        if len(moments) > 1:
            raise Trouble("a file is compared with one moment: name one --at, or none.", USAGE)
        then = moments[0] if moments else None
        return would_change(Look(data, then, server, token_file), files, form)
    if not 1 <= len(moments) <= 2:
        raise Trouble(
            "name the moments: `holdfast diff --at 10m --at 412`, or one of them to compare with "
            "now.",
            USAGE,
        )
    before, after = (*moments, Moment())[:2]
    look = Look(data, None, server, token_file)
    folder = look.folder()
    if folder is not None:
        told = difference(open_folder(folder, before), open_folder(folder, after))
    else:
        told = _asked(look, before, after)
    _tell(told, form)
    return 0


def _asked(look: Look, before: Moment, after: Moment) -> View:
    from holdfast.cli.asking import asking

    later = {} if after == Moment() else {"to": told_moment(after)}
    with asking(look.server, look.token_file) as asker:
        told = asker.get("diff", **{"from": told_moment(before)}, **later)
    return told


def _tell(told: View, form: str) -> None:
    changed: list[View] = told["changes"]
    if form in WHOLE:
        WHOLE[form]({name: value for name, value in told.items() if name != "schema"})
    elif form == "jsonl":
        for view in changed:
            emit_line(view)
    elif form == "name":
        emit("".join(f"{view['table']}/{view['name']}\n" for view in changed))
    elif form in TABLES:
        wide = form == "wide"
        columns = [Column("WHAT"), Column("CHANGE"), Column("HOW", elastic=True)]
        rows = [[f"{v['table']}/{v['name']}", v["change"], _how(v, wide)] for v in changed]
        emit(draw(columns, rows) if rows else "")
        before, after = told["from"], told["to"]
        note(
            f"{len(changed)} things differ between position {before['position']} ({before['at']}) "
            f"and {after['position']} ({after['at']})"
        )


def _how(view: View, wide: bool) -> str:
    """`state PENDING -> FAILED; 3 tasks WAITING -> QUARANTINED`."""
    told = [f"{name} {_word(was)} -> {_word(now)}" for name, (was, now) in view["fields"].items()]
    if view["change"] != "changed":
        told = [f"{name} {_word(now if view['change'] == 'added' else was)}"
                for name, (was, now) in view["fields"].items()
                if (now if view["change"] == "added" else was) is not None]  # fmt: skip
    told += [f"{counted(count, 'task')} {move}" for move, count in view["moves"].items()]
    shown = told if wide else told[:WORDS]
    more = f"; and {len(told) - len(shown)} more" if len(told) > len(shown) else ""
    return "; ".join(shown) + more


def _word(value: object) -> str:
    return "-" if value is None else str(value)
