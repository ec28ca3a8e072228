"""`holdfast demo`: the newcomer's first minute. Everything it shows is real and can be repeated."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

import holdfast
from holdfast.cli.folders import FromFolder
from holdfast.cli.output import emit, note, typed
from holdfast.cli.progress import bar
from holdfast.cli.sample import weigh
from holdfast.cli.sources import LAST
from holdfast.cli.tables import jobs_table, task_text
from holdfast.client.holdfast import Holdfast

ITEMS = 60
WORKERS = 4
FLAKY = 5


@click.command()
@click.option("--crash", is_flag=True, help="Kill the program in the middle, several times.")
@click.option("--keep", is_flag=True, help="Keep the folder, so that you can look at it after.")
def demo(crash: bool, keep: bool) -> int:
    """The first minute: run a small job, look at it, clean up.

    Exits 0 when everything that was acknowledged was done, once.
    """
    with _folder(keep=keep) as folder:
        if crash:
            from holdfast.cli.crash import crash_demo

            return crash_demo(folder, keep=keep)
        _run(folder, keep=keep)
    return 0


def _run(folder: Path, *, keep: bool) -> None:
    emit(
        "A job is a folder away: no server, no broker, no database.\n\n"
        f"    with holdfast.open({str(folder)!r}) as hf:\n"
        f"        job = hf.map(weigh, items, name='demo')      # {ITEMS} items\n\n"
    )
    scratch = folder / "scratch"
    scratch.mkdir()
    with holdfast.open(folder, workers=WORKERS) as hf:
        total = _map(hf, scratch)
    source = FromFolder(folder)
    records = source.reading.state.position
    job = source.job(LAST)
    flaky = f"{job['id']}/{FLAKY}"
    emit(
        f"\nDone: {ITEMS} results, their sum is {total:,}. The program has closed the folder.\n"
        f"What follows is read from its log: {records} records, each on disk\n"
        "before anyone was told of it.\n"
    )
    _type(f"holdfast job list --data {typed(folder)}", jobs_table([job], source.now()))
    _type(
        f"holdfast task show {flaky} --data {typed(folder)}",
        task_text(source.task(job, FLAKY)),
    )
    emit(
        "\nItem 5 failed twice. Each failure was recorded, charged to its budget of 3 and\n"
        "followed by a wait and another try. A worker that dies is charged to another\n"
        "budget: that is nobody's mistake.\n"
    )
    _next(folder, keep=keep)


def _map(hf: Holdfast, scratch: Path) -> int:
    items = [(number, str(scratch)) for number in range(ITEMS)]
    job = hf.map(weigh, items, name="demo")
    total = 0
    with bar("demo", ITEMS) as advance:
        for value in job.as_completed():
            total += value
            advance(1)
    return total


def _type(command: str, output: str) -> None:
    emit(f"\n$ {command}\n{output}")


def _next(folder: Path, *, keep: bool) -> None:
    if keep:
        emit(
            f"\nThe folder is yours: {folder}\n"
            f"    export HOLDFAST_DATA_DIR={typed(folder)}\n"
            "    holdfast job show last              the job in words; -o json for programs\n"
            "    holdfast job list --at 20           the past: as it was after record 20\n"
            "    holdfast task list --state succeeded --limit 5\n"
            "    holdfast transactions --limit 5     who asked what, and what followed\n"
            "    holdfast log verify                 every byte, every link, every conclusion\n"
        )
    else:
        emit("\nThis folder goes now. `holdfast demo --keep` leaves you one to look around in.\n")
    emit(
        "\nNext:\n"
        "    holdfast demo --crash    kill -9 three times in the middle; count the losses\n"
        "    holdfast states          what can happen to a task, and what cannot\n"
        "    holdfast --help          everything else\n"
    )


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    """A folder of the demo's own. It goes with the demo, whatever happens, unless it is kept."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    try:
        yield folder
    except BaseException:
        if keep:
            note(f"kept: {folder}")
        raise
    finally:
        if not keep and os.path.isdir(folder):
            shutil.rmtree(folder, ignore_errors=True)
