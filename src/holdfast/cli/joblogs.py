"""`holdfast job logs` and `task logs`: what tasks have printed, and what they print now."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from holdfast.cli.errors import NOT_FOUND, Trouble
from holdfast.cli.following import BOTH, Writer, follow_attempt, follow_task, pieces, start_of
from holdfast.cli.options import server_options
from holdfast.cli.output import PIPE_CLOSED, View, note
from holdfast.cli.reading import Look
from holdfast.cli.selectors import UNFINISHED, find_one_task, find_tasks
from holdfast.cli.shelves import Place, Shelf
from holdfast.cli.sources import LAST, Source
from holdfast.wire.http import Rejected

F = TypeVar("F", bound=Callable[..., Any])

LOOK_S: Final = 0.5
"""How often a job of many tasks is looked through while it is followed."""
LAST_S: Final = 3.0
"""How long after its end a job's output may take to arrive."""
AWAITED_MOST: Final = 256
"""How many tasks may be asked, one by one, whether their output has ended."""


def _options(command: F) -> F:
    for option in (
        click.option("-f", "--follow", is_flag=True, help="Go on until it has ended."),
        click.option("--stream", type=click.Choice([*BOTH, "both"]), default="both",
                     show_default=True, help="What it printed where."),
        click.option("--attempt", type=click.IntRange(1), metavar="N",
                     help="This attempt alone. [default: the last]"),
        click.option("--tail", type=click.IntRange(0), metavar="N",
                     help="Only the last N lines of each. [default: all that is kept]"),
        click.option("--data", type=click.Path(path_type=Path), metavar="DIR",
                     help="The folder of a log, instead of a server."),
    ):  # fmt: skip
        command = option(command)
    return server_options(command)


@click.command("logs")
@click.argument("selector", metavar="[JOB|JOB/3-7]", default=LAST)
@_options
def job_logs(selector: str, **options: Any) -> None:
    """Print what the tasks of a job have printed, by default of the newest.

    What went to stdout goes to stdout, and the same for stderr. Where several tasks speak, every
    line begins with the task.
    """
    with _shelf(options) as (source, shelf):
        job, indices = find_tasks(source, selector)
        _print(source, shelf, job, indices, options)


@click.command("logs")
@click.argument("selector", metavar="JOB/INDEX", default=f"{LAST}/0")
@_options
def task_logs(selector: str, **options: Any) -> None:
    """Print what a task has printed: JOB/3, or a job that has only one."""
    with _shelf(options) as (source, shelf):
        job, index = find_one_task(source, selector)
        _print(source, shelf, job, range(index, index + 1), options)


@contextmanager
def _shelf(options: dict[str, Any]) -> Iterator[tuple[Source, Shelf]]:
    look = Look(options["data"], None, options["server"], options["token_file"])
    with look.source(is_patient=options["follow"]) as source:
        yield source, source.shelf(follows=options["follow"])


def _print(
    source: Source, shelf: Shelf, job: View, indices: range, options: dict[str, Any]
) -> None:
    streams = BOTH if options["stream"] == "both" else (options["stream"],)
    try:
        if len(indices) == 1:
            _one(source, shelf, job, indices[0], streams, options)
        else:
            _Many(source, shelf, job, indices, streams, options).print()
    except BrokenPipeError:
        # The reader has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise click.exceptions.Exit(PIPE_CLOSED) from None


def _one(
    source: Source,
    shelf: Shelf,
    job: View,
    index: int,
    streams: tuple[str, ...],
    options: dict[str, Any],
) -> None:
    begun = [each["attempt"] for each in source.task(job, index)["attempts"]]
    attempt = options["attempt"] or max(begun, default=1)
    writer = Writer(prefixed=False)
    if not begun and not options["follow"]:
        note(f"task {job['id']}/{index} has not begun; -f waits for it")
        return
    if options["attempt"] and attempt not in begun and attempt != max(begun, default=0) + 1:
        raise Trouble(f"task {job['id']}/{index} has no attempt {attempt}.", NOT_FOUND)
    if options["follow"] and not options["attempt"]:
        for piece in follow_task(shelf, job["id"], index, attempt, streams, tail=options["tail"]):
            writer.write(*piece)
        return
    places = [Place(job["id"], index, attempt, stream) for stream in streams]
    starts = [start_of(shelf, place, options["tail"]) for place in places]
    if options["follow"]:
        for piece in follow_attempt(shelf, places, starts):
            writer.write(*piece)
        return
    for place, start in zip(places, starts, strict=True):
        for piece in pieces(shelf, place, start):
            writer.write(*piece)


class _Many:
    """The output of several tasks, as far as each has got."""

    def __init__(
        self,
        source: Source,
        shelf: Shelf,
        job: View,
        indices: range,
        streams: tuple[str, ...],
        options: dict[str, Any],
    ) -> None:
        self._source = source
        self._shelf = shelf
        self._job = job
        # A job that is still fed has more tasks than when we began.
        self._indices = indices if len(indices) != job["tasks"] else None
        self._streams = streams
        self._attempt: int | None = options["attempt"]
        self._tail: int | None = options["tail"]
        self._follows: bool = options["follow"]
        self._writer = Writer(prefixed=True)
        self._offsets: dict[Place, int] = {}

    def print(self) -> None:
        self._round(lasts=not self._follows)
        if self._follows:
            while self._job["state"] in UNFINISHED:
                self._job = self._source.await_end(self._job, LOOK_S)
                self._round()
            # What was printed at the very end is on its way still.
            self._await_the_unlisted()
            self._round()
            for place, offset in list(self._offsets.items()):
                self._read(place, offset, LAST_S)
        self._writer.close()
        if not self._offsets:
            note(f"nothing that job {self._job['id']} has printed is kept")

    def _round(self, *, lasts: bool = False) -> None:
        """Print what is new. `lasts`: of the last attempt of each task alone."""
        found = [(place, size) for place, size in self._listed() if self._is_wanted(place)]
        latest = {(place.index, place.stream): place.attempt for place, _ in found}
        for place, size in found:
            if lasts and latest[place.index, place.stream] != place.attempt:
                continue
            offset = self._offsets.get(place)
            if offset is None:
                offset = start_of(self._shelf, place, self._tail)
            if offset < size:
                self._read(place, offset)
            else:
                self._offsets[place] = offset

    def _await_the_unlisted(self) -> None:
        """Nobody lists a stream before its first bytes have come, and those may be its last."""
        indices = range(self._job["tasks"]) if self._indices is None else self._indices
        if len(indices) > AWAITED_MOST:
            return
        for view in self._source.tasks(self._job, indices, frozenset()).views:
            attempt = self._attempt or view["attempt"]
            for stream in self._streams if 0 < attempt <= view["attempt"] else ():
                place = Place(self._job["id"], view["index"], attempt, stream)
                if place not in self._offsets:
                    with _unless_gone():
                        self._shelf.read(place, 0, LAST_S)

    def _read(self, place: Place, offset: int, wait_s: float = 0) -> None:
        self._offsets[place] = offset
        with _unless_gone():
            for _, piece in pieces(self._shelf, place, offset, wait_s):
                self._writer.write(place, piece)
                self._offsets[place] = piece.next

    def _listed(self) -> Iterator[tuple[Place, int]]:
        first = self._indices[0] if self._indices else 0
        for place, size in self._shelf.listed(self._job["id"], first):
            if self._indices is not None and place.index > self._indices[-1]:
                return
            yield place, size

    def _is_wanted(self, place: Place) -> bool:
        is_task = self._indices is None or place.index in self._indices
        is_attempt = self._attempt in (None, place.attempt)
        return is_task and is_attempt and place.stream in self._streams


@contextmanager
def _unless_gone() -> Iterator[None]:
    """Output that is no longer kept is told of, and the rest is shown."""
    try:
        yield
    except Rejected as no:
        if no.problem.code != "gone":
            raise
        note(str(no))
