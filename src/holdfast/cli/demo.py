"""`holdfast demo`: the newcomer's first minute. Everything it shows is real and can be repeated."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

import click

import holdfast
from holdfast.cli.asking import Asker, asking
from holdfast.cli.commits import count_commits
from holdfast.cli.fleet import workers_table
from holdfast.cli.folders import FromFolder
from holdfast.cli.output import View, emit, note, typed
from holdfast.cli.progress import bar
from holdfast.cli.sample import weigh
from holdfast.cli.sources import LAST
from holdfast.cli.stage import Stage
from holdfast.cli.tables import jobs_table, task_text
from holdfast.cli.unwinding import uninterrupted
from holdfast.client.holdfast import Holdfast

ITEMS = 60
WORKERS = ("red", "blue")
DOOMED = "blue"
FLAKY = 5
LOOK_S = 0.1
MISSED_S = 30.0


@click.command()
@click.option("--crash", is_flag=True, help="Kill the program in the middle, several times.")
@click.option("--keep", is_flag=True, help="Keep the folder, so that you can look at it after.")
def demo(crash: bool, keep: bool) -> int:
    """The first minute: a server, two workers, a job, and one worker killed on stage.

    Exits 0 when everything that was acknowledged was done, once.
    """
    with _folder(keep=keep) as folder:
        if crash:
            from holdfast.cli.crash import crash_demo

            return crash_demo(folder, keep=keep)
        return _run(folder, keep=keep)


def _run(folder: Path, *, keep: bool) -> int:
    scratch = folder / "scratch"
    scratch.mkdir()
    emit("A server, two workers and a job, all on this machine. One of the workers will die.\n\n")
    with Stage(folder) as stage:
        stage.serve()
        emit(f"$ holdfast serve --data {typed(stage.data)}\n  serving at {stage.url}\n")
        stage.hire(*WORKERS)
        for name in WORKERS:
            emit(f"$ holdfast worker start --server {stage.url} --name {name}\n")
        emit(
            f"\n    hf = holdfast.connect({stage.url!r})\n"
            f"    job = hf.map(weigh, items, name='demo')      # {ITEMS} items\n\n"
        )
        with holdfast.connect(stage.url, token_file=stage.token_file) as hf:
            total = _map(hf, scratch, stage)
            emit(f"\nDone: {ITEMS} results, their sum is {total:,}.\n")
        with asking(stage.url, stage.token_file) as asker:
            workers = _missed(asker)
        drawn = workers_table(workers, time.time_ns() // 1_000_000)
        _type(f"holdfast worker list --server {stage.url}", drawn)
    return _look_back(stage.data, keep=keep)


def _map(hf: Holdfast, scratch: Path, stage: Stage) -> int:
    """All results, with a death in the middle."""
    items = [(number, str(scratch)) for number in range(ITEMS)]
    job = hf.map(weigh, items, name="demo")
    total = done = 0
    with bar("demo", ITEMS) as advance:
        for value in job.as_completed():
            total += value
            done += 1
            advance(1)
            if done == ITEMS // 3:
                stage.workers[DOOMED].kill()
                now = datetime.now().astimezone()
                emit(f"{now:%H:%M:%S}  killed worker {DOOMED} with SIGKILL ({done}/{ITEMS} done)\n")
    return total


def _missed(asker: Asker) -> list[View]:
    """The workers, once the server misses the one that died. That takes a term: where it had
    nothing to do when it died, the job was over before."""
    give_up_at = time.monotonic() + MISSED_S
    while True:
        workers: list[View] = asker.get("workers")["workers"]
        silent = [each["name"] for each in workers if each["state"] == "SILENT"]
        if DOOMED in silent or time.monotonic() >= give_up_at:
            return workers
        time.sleep(LOOK_S)


def _look_back(data: Path, *, keep: bool) -> int:
    """What the log says of it all, now that nobody serves it."""
    source = FromFolder(data)
    job = source.job(LAST)
    count = count_commits(source.reading.folder, ITEMS)
    emit(
        f"\nThe server has left. What follows is read from its log: "
        f"{source.reading.state.position} records, each\n"
        "on disk before anyone was told of it.\n"
    )
    _type(f"holdfast job list --data {typed(data)}", jobs_table([job], source.now()))
    shown = count.cut_short[0] if count.cut_short else FLAKY
    _type(
        f"holdfast task show {job['id']}/{shown} --data {typed(data)}",
        task_text(source.task(job, shown)),
    )
    emit(
        f"\n  lost                {count.lost}\n"
        f"  committed twice     {count.twice}\n"
        f"  attempts that died  {len(count.cut_short)}   each was tried again elsewhere\n"
    )
    emit(
        "\nFive items failed twice, as flaky things do. Each failure was recorded, charged to a\n"
        "budget of 3 and followed by a wait and another try. A worker that dies is charged to\n"
        "another budget: that is nobody's mistake.\n"
    )
    _next(data, keep=keep)
    return 0 if count.is_good else 1


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
            f"    holdfast serve --data {typed(folder)}\n"
        )
    else:
        emit("\nThis folder goes now. `holdfast demo --keep` leaves you one to look around in.\n")
    emit(
        "\nNext:\n"
        "    holdfast demo --crash    kill -9 three times in the middle; count the losses\n"
        "    holdfast states          what can happen to a task, and what cannot\n"
        "    holdfast.open(folder)    the same without a server, inside your own program\n"
        "    holdfast --help          everything else\n"
    )


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    """A folder of the demo's own. It goes with the demo, whatever happens, unless it is kept."""
    with ExitStack() as stack:
        with uninterrupted():
            folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
            stack.enter_context(_kept(folder) if keep else _going(folder))
        yield folder


@contextmanager
def _kept(folder: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        note(f"kept: {folder}")
        raise


@contextmanager
def _going(folder: Path) -> Iterator[None]:
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
