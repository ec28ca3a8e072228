"""The `holdfast` command: what there is to type, loaded only when it is typed.

A command's module is imported when the command runs, so that `holdfast --help` costs little more
than the interpreter. The one-line summaries therefore live here.
"""

import importlib
import importlib.util
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import click

from holdfast.cli.errors import report
from holdfast.version import VERSION

CONTEXT: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class LazyCommands(click.Group):
    """A group that knows its commands by name and summary, and imports one when it is called.

    `places` maps a name to `module:attribute` and a summary. A command whose module is not
    installed is not offered.
    """

    def __init__(self, places: Mapping[str, tuple[str, str]], **rest: Any) -> None:
        super().__init__(**rest)
        self._places = {name: place for name, place in places.items() if _exists(place[0])}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self._places.get(cmd_name)
        if place is None:
            return None
        module, _, attribute = place[0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, told) for name, (_, told) in self._places.items()])


def _exists(place: str) -> bool:
    return importlib.util.find_spec(place.partition(":")[0]) is not None


PLACES: Final = {
    "demo": ("holdfast.cli.demo:demo", "The first minute: run a small job, look at it, clean up."),
    "serve": ("holdfast.cli.serve:serve", "Serve a folder to workers and programs elsewhere."),
    "job": ("holdfast.cli.jobs:job", "List jobs, or show one."),
    "task": ("holdfast.cli.tasks:task", "List the tasks of a job, or show one with its attempts."),
    "worker": ("holdfast.cli.workers:worker", "Start a worker for a server."),
    "transactions": (
        "holdfast.cli.transactions:transactions",
        "What was asked, by whom, and all that followed.",
    ),
    "log": ("holdfast.cli.logs:log", "Verify, dump or measure a log, or take a snapshot of it."),
    "states": ("holdfast.cli.states:states", "Draw the states of tasks, attempts, leases, jobs."),
    "bench": ("holdfast.cli.bench:bench", "Measure this machine."),
}

holdfast = LazyCommands(
    PLACES,
    name="holdfast",
    context_settings=CONTEXT,
    params=[
        click.Option(
            ["--color"],
            type=click.Choice(["auto", "always", "never"]),
            default="auto",
            help="Colours on a terminal, always or never. NO_COLOR and FORCE_COLOR count too.",
        )
    ],
    callback=lambda color: None,
    help=(
        "Jobs that survive the machines they run on.\n\n"
        "Start with `holdfast demo`. Commands that look at a log take `--data DIR`, or the folder "
        "in $HOLDFAST_DATA_DIR."
    ),
)
click.version_option(VERSION, "-V", "--version", message="holdfast %(version)s")(holdfast)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Nothing a user can do wrong ends in a traceback.

    0 done, 1 refused or failed, 2 wrong usage, 4 not found, 5 conflict, 75 in use (try again),
    130 interrupted, 143 terminated.
    """
    try:
        with _terminating():
            answer = holdfast.main(
                args=None if arguments is None else list(arguments),
                prog_name="holdfast",
                standalone_mode=False,
            )
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - raised again if not known
        return report(error)
    return answer if isinstance(answer, int) else 0


@contextmanager
def _terminating() -> Iterator[None]:
    """Have SIGTERM unwind the program, so that a demo takes its folder with it."""

    def stop(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        # Signals belong to the main thread; a program that calls us elsewhere keeps its own ways.
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
