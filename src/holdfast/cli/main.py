"""The `holdfast` command: what there is to type, loaded only when it is typed.

A command's module is imported when the command runs, so that `holdfast --help` costs little more
than the interpreter. The one-line summaries therefore live here.
"""

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import click

from holdfast.cli.errors import report
from holdfast.cli.lazy import LazyCommands
from holdfast.version import VERSION

CONTEXT: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


PLACES: Final = {
    "demo": ("holdfast.cli.demo:demo", "The first minute: run a small job, look at it, clean up."),
    "serve": ("holdfast.cli.serve:serve", "Serve a folder to workers and programs elsewhere."),
    "worker": ("holdfast.cli.groups:worker", "Start workers, look at them, take them out."),
    "run": ("holdfast.cli.submit:run", "Run a command on a worker; end as it ends."),
    "submit": ("holdfast.cli.submit:submit", "Submit a command and print the id of its job."),
    "ps": ("holdfast.cli.jobs:ps", "List the jobs that have not ended."),
    "job": ("holdfast.cli.groups:job", "List jobs, show them, wait for them, stop them."),
    "task": (
        "holdfast.cli.groups:task",
        "List tasks, show one with its attempts, stop or move it.",
    ),
    "explain": (
        "holdfast.cli.explaining:explain",
        "Say why it is not running, or what everything waits for.",
    ),
    "effect": (
        "holdfast.cli.groups:effect",
        "Look at what tasks owe the world; retry it or give it up.",
    ),
    "operation": (
        "holdfast.cli.groups:operation",
        "See what was done to many at once, and undo it.",
    ),
    "quarantine": (
        "holdfast.cli.groups:quarantine",
        "See what failed for good, by error; retry it or give it up.",
    ),
    "stall": ("holdfast.cli.groups:stall", "See what hangs, and end it."),
    "schedule": (
        "holdfast.cli.groups:schedule",
        "Have commands run again and again: by cron, or every so often.",
    ),
    "apply": ("holdfast.cli.applying:apply", "Have functions kept up as a file says."),
    "runtime": (
        "holdfast.cli.groups:runtime",
        "See what is kept up and why it is not; wait for it, take it down.",
    ),
    "queue": ("holdfast.cli.groups:queue", "Look at queues, pause and resume them."),
    "circuit": ("holdfast.cli.groups:circuit", "See which functions and sinks rest, and why."),
    "limit": ("holdfast.cli.groups:limit", "Bound what namespaces, users and keys have running."),
    "token": ("holdfast.cli.groups:token", "Decide who may ask a server for what."),
    "transactions": (
        "holdfast.cli.transactions:transactions",
        "What was asked, by whom, and all that followed.",
    ),
    "audit": ("holdfast.cli.groups:audit", "See who did what and why, and that it is unchanged."),
    "query": ("holdfast.cli.querying:query", "Ask in SQL about everything that is known."),
    "diff": ("holdfast.cli.differing:diff", "Say what changed between two moments, or would."),
    "log": ("holdfast.cli.groups:log", "Verify, measure, snapshot, fork or salvage a log."),
    "states": ("holdfast.cli.states:states", "Draw the states of tasks, attempts, leases, jobs."),
    "config": ("holdfast.cli.groups:config", "Show the settings and where each comes from."),
    "doctor": ("holdfast.cli.doctor:doctor", "Check the server, the token, the clock, the disk."),
    "bench": ("holdfast.cli.bench:bench", "Measure this machine."),
    "completion": ("holdfast.cli.completion:completion", "Print what completes commands on Tab."),
    "get": ("holdfast.cli.aliases:get", ""),
    "describe": ("holdfast.cli.aliases:describe", ""),
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
        "Start with `holdfast demo`. Commands ask the server of `holdfast serve`, or the one that "
        "--server or $HOLDFAST_SERVER names; those that only look can read a folder instead, with "
        "--data DIR or $HOLDFAST_DATA_DIR."
    ),
)
click.version_option(VERSION, "-V", "--version", message="holdfast %(version)s")(holdfast)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Nothing a user can do wrong ends in a traceback.

    0 done, 1 refused or failed, 2 wrong usage, 3 what was waited for was cancelled, 4 not found,
    5 conflict, 6 not allowed, 75 in use or no answer (try again), 124 a time limit was reached,
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
