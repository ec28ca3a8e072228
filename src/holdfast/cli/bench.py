"""`holdfast bench`: how fast this machine is with Holdfast, and whether that is what it should be.

A bench is not a test. It says plainly whether a bar is met and still ends well, because a busy or
slow machine is no fault of anyone. It ends with 1 only when a row could not be measured.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.cli.benchmarks.machine import Machine, describe, this_machine
from holdfast.cli.benchmarks.peers import PEER_NAMES, PYTHON, beside_peers, missing
from holdfast.cli.benchmarks.row import ROW_NAMES, measure_in_child, row_of
from holdfast.cli.benchmarks.tally import (
    Tallies,
    Tally,
    spell,
    spell_bar,
    spell_spread,
    tally_rows,
)
from holdfast.cli.output import Column, draw, emit, emit_json, note

REPEAT_LEAST = 3

COLUMNS = (
    Column("ROW"),
    Column("FIGURE", elastic=True),
    Column("MEDIAN", right=True),
    Column("UNIT"),
    Column("SPREAD", right=True),
    Column("BAR", right=True),
    Column("VERDICT"),
)


@click.command()
@click.argument("rows", nargs=-1, type=click.Choice(ROW_NAMES), metavar="[ROW]...")
@click.option("--json", "as_json", is_flag=True, help="Write the figures as JSON.")
@click.option(
    "--repeat",
    type=click.IntRange(min=REPEAT_LEAST),
    default=REPEAT_LEAST,
    show_default=True,
    help="How often each row runs; the median counts.",
)
@click.option("--quick", is_flag=True, help="Small sizes: a first look, not to be judged.")
@click.option(
    "--peers", is_flag=True, help="Measure other queues too, those that are installed, beside it."
)
@click.option(
    "--peers-python",
    envvar=PYTHON,
    metavar="FILE",
    help="The Python that has the other queues. [default: this one]",
)
@click.option(
    "--dir",
    "folder",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    default=Path(),
    help="Where to write; its disk is measured. The current folder by default.",
)
def bench(
    rows: tuple[str, ...],
    as_json: bool,
    repeat: int,
    quick: bool,
    peers: bool,
    peers_python: str | None,
    folder: Path,
) -> None:
    """Measure this machine, row by row, each run in a fresh process.

    ROW is one of embedded, latency, server, latency-server, effects, idle, arrays, items,
    singles, finished, restart, replay, growth, scheduler, evaluator, help; all of them where none
    is named. Nothing else should run meanwhile. Other queues are pgqueuer, huey, dramatiq, taskiq
    and Celery; PostgreSQL and Redis are started for them where they are found.
    """
    place = folder.resolve()
    machine = this_machine(place)
    if peers_python:
        # The process of a row finds it there.
        os.environ[PYTHON] = peers_python
    names = [*(rows or ROW_NAMES), *(_installed(PEER_NAMES) if peers else ())]
    measured = tally_rows(
        [row_of(name) for name in names],
        repeat=repeat,
        quick=quick,
        folder=place,
        measure=measure_in_child,
        tell=note,
    )
    beside = tuple(beside_peers(measured.tallies))
    measured = msgspec.structs.replace(measured, tallies=measured.tallies + beside)
    if as_json:
        emit_json(document_of(machine, measured, repeat=repeat, quick=quick))
    else:
        emit(table_of(machine, measured, repeat=repeat, quick=quick))
    if measured.failures:
        sys.exit(1)


def _installed(names: Iterable[str]) -> list[str]:
    """Those that can be measured here; the others are told."""
    found: list[str] = []
    for name in names:
        why = missing(name)
        if why:
            note(f"{name} is left out: {why}")
        else:
            found.append(name)
    return found


def document_of(machine: Machine, measured: Tallies, *, repeat: int, quick: bool) -> dict[str, Any]:
    """What `--json` writes, beside the number of its schema."""
    return {
        "machine": msgspec.to_builtins(machine),
        "quick": quick,
        "repeat": repeat,
        "figures": [_figure_of(tally) for tally in measured.tallies],
        "failures": msgspec.to_builtins(measured.failures),
    }


def table_of(machine: Machine, measured: Tallies, *, repeat: int, quick: bool) -> str:
    """The same for eyes."""
    lines = [
        (
            tally.row,
            tally.figure.what,
            spell(tally.median),
            tally.figure.unit,
            spell_spread(tally.values),
            spell_bar(tally.figure.bar),
            tally.verdict,
        )
        for tally in measured.tallies
    ]
    table = draw(COLUMNS, lines) if lines else ""
    failed = "".join(f"{failure.row} failed: {failure.error}\n" for failure in measured.failures)
    sizes = "; small sizes, which no bar is meant for" if quick else ""
    return f"{table}{failed}\n{describe(machine)}\nmedian of {repeat} runs{sizes}\n"


def _figure_of(tally: Tally) -> dict[str, Any]:
    bar = tally.figure.bar
    return {
        "row": tally.row,
        "name": tally.figure.name,
        "what": tally.figure.what,
        "unit": tally.figure.unit,
        "size": tally.size,
        "median": tally.median,
        "min": min(tally.values),
        "max": max(tally.values),
        "values": list(tally.values),
        "bar": None if bar is None else {"limit": bar.limit, "at_least": bar.at_least},
        "met": tally.is_met,
    }
