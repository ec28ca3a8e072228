"""`holdfast job wait`: until jobs have ended, and how they did."""

import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import click

from holdfast.cli.asking import Asker, asking
from holdfast.cli.errors import CANCELLED, REFUSED, TIMED_OUT, Trouble
from holdfast.cli.options import output_option, server_options
from holdfast.cli.output import TABLES, View, emit_list, note
from holdfast.cli.progress import Meter, bar, nowhere
from holdfast.cli.selectors import ENDED, UNFINISHED, find_jobs
from holdfast.cli.servers import FromServer
from holdfast.cli.tables import jobs_table
from holdfast.core.job import CANCELLED as BY_A_PERSON
from holdfast.core.job import JobState
from holdfast.wire.amounts import duration_ms

LONG_S: Final = 30.0
"""How long a server is asked to wait with its answer."""
WATCHED_S: Final = 1.0
"""The same where somebody looks at a bar."""
POLL_S: Final = 0.25
IDLE_S: Final = 2.0
"""After so long without a worker in sight we say so."""


class OutOfTime(Exception):
    """What was waited for had not happened in time."""


class Deadline:
    """The end of somebody's patience, if it has one."""

    def __init__(self, timeout: str | None) -> None:
        try:
            limit_ms = None if timeout is None else duration_ms(timeout, "--timeout")
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--timeout") from None
        self._at = None if limit_ms is None else time.monotonic() + limit_ms / 1_000

    def left(self, most_s: float) -> float:
        """How long to wait for the next answer; `OutOfTime` where nothing is left."""
        if self._at is None:
            return most_s
        left = self._at - time.monotonic()
        if left <= 0:
            raise OutOfTime
        return min(left, most_s)


def _states(context: click.Context, option: click.Parameter, value: str | None) -> frozenset[str]:
    """`state=succeeded`, several with commas; the word `state=` may be left out."""
    if value is None:
        return frozenset()
    names = value.removeprefix("state=").upper().split(",")
    unknown = [name for name in names if name not in JobState.__members__]
    if unknown:
        raise click.BadParameter(
            f"{value!r} is no state to wait for: write state=succeeded, or one of "
            f"{', '.join(state.lower() for state in JobState)}",
            context,
            option,
        )
    return frozenset(names)


@click.command()
@click.argument("selectors", metavar="JOB...", nargs=-1, required=True)
@click.option("--timeout", metavar="DURATION", help="Give up after so long, with exit code 124.")
@click.option("--for", "states", callback=_states, metavar="state=STATE",
              help="Wait for this state instead of the end.")  # fmt: skip
@click.option("--ignore-failures", is_flag=True, help="Exit 0 when they have ended, however.")
@server_options
@output_option
def wait(
    selectors: tuple[str, ...],
    timeout: str | None,
    states: frozenset[str],
    ignore_failures: bool,
    server: str | None,
    token_file: Path | None,
    form: str,
) -> int:
    """Wait until jobs have ended. One whose effects are still owed has not.

    Exits 0 when all succeeded, 1 when any failed, 3 when any was cancelled and none failed, 124
    when the time was up. `all` means those that have not ended.
    """
    deadline = Deadline(timeout)
    with asking(server, token_file) as asker:
        jobs = find_jobs(FromServer(asker), selectors, all_means=UNFINISHED)
        with asker.patient() as patient:
            ended: list[View] = []
            try:
                for view in jobs:
                    ended.append(until_ended(patient, view, deadline, states))
            except OutOfTime:
                late = jobs[len(ended)]["id"]
                raise Trouble(
                    f"the time was up while job {late} was waited for. "
                    f"`holdfast job show {late}{asker.options}` says how it stands.",
                    TIMED_OUT,
                ) from None
    now = time.time_ns() // 1_000_000
    table = jobs_table(ended, now, wide=form == "wide") if form in TABLES and ended else ""
    emit_list(form, "jobs", ended, table)
    missed = [view for view in ended if states and view["state"] not in states]
    for view in missed:
        note(f"job {view['id']} has ended as {view['state']}; what you wait for cannot come")
    if ignore_failures:
        return 0
    if states:
        return (outcome_of(missed) or REFUSED) if missed else 0
    return outcome_of(ended)


def outcome_of(views: Sequence[View]) -> int:
    """The exit code for jobs that have ended: failed weighs more than cancelled."""
    codes = {_code(view) for view in views}
    return next((code for code in (REFUSED, CANCELLED) if code in codes), 0)


def _code(view: View) -> int:
    if view["state"] == JobState.SUCCEEDED:
        return 0
    by_a_person = view["reason"] in (None, BY_A_PERSON)
    return CANCELLED if view["state"] == JobState.KILLED and by_a_person else REFUSED


def until_ended(
    asker: Asker,
    view: View,
    deadline: Deadline | None,
    states: frozenset[str] = frozenset(),
    *,
    is_quiet: bool = False,
) -> View:
    """The job when it has ended, or is in one of these states; `OutOfTime` where it is not.
    `is_quiet`: the terminal belongs to somebody else."""
    patience = deadline or Deadline(None)
    if view["state"] in states or view["state"] not in UNFINISHED:
        return view
    has_eyes = sys.stderr is not None and sys.stderr.isatty()
    with nullcontext(nowhere) if is_quiet else bar(f"job {view['id']}", view["tasks"]) as advance:
        meter = Meter(advance)
        workers, parked = _Workers(asker), _Parked(asker)
        while view["state"] in UNFINISHED and view["state"] not in states:
            # Only its end can be waited for at the server; other states are looked for.
            most_s = WATCHED_S if has_eyes else LONG_S
            if view["state"] == JobState.PENDING:
                most_s = min(most_s, IDLE_S)
            if states - {JobState.SUCCEEDED}:
                most_s = POLL_S
            wait_ms = max(1, int(patience.left(most_s) * 1_000))
            view = asker.get("jobs", view["id"], wait=f"{wait_ms}ms")
            meter.reached(sum(n for state, n in view["counts"].items() if state in ENDED))
            workers.look(view)
            parked.look(view)
    return view


def has_no_worker(asker: Asker) -> bool:
    """Whether nobody is there who could run anything."""
    known = asker.get("workers")["workers"]
    # One without slots delivers effects, and runs nothing.
    able = [worker for worker in known if worker.get("slots", 1)]
    return all(worker["state"] in ("SILENT", "GONE") for worker in able)


class _Workers:
    """Whoever waits for work that nobody can do is told so, once."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._is_told = False

    def look(self, view: View) -> None:
        if self._is_told or view["state"] != JobState.PENDING:
            return
        self._is_told = True
        if has_no_worker(self._asker):
            note(
                f"no worker is connected to {self._asker.url}, so job {view['id']} waits. Start "
                f"one: `holdfast worker start{self._asker.options}`"
            )


class _Parked:
    """Whoever waits for a job that cannot end before somebody decides is told so, once."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._is_told = False

    def look(self, view: View) -> None:
        owed = view.get("owed")
        if self._is_told or not owed or not owed["parked"]:
            return
        self._is_told = True
        count = owed["parked"]
        what = "1 effect of it is" if count == 1 else f"{count} effects of it are"
        listed = f"holdfast effect list --job {view['id']} --state parked{self._asker.options}"
        note(f"job {view['id']} has not ended: {what} parked. `{listed}` says why")
