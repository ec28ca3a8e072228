"""`holdfast runtime wait`: until runtimes are as one wishes."""

from collections.abc import Sequence
from pathlib import Path

import click

from holdfast.cli.asking import Asker, asking
from holdfast.cli.errors import REFUSED, TIMED_OUT, Trouble
from holdfast.cli.options import server_options
from holdfast.cli.output import View, clean, note
from holdfast.cli.runtime_sources import no_runtime
from holdfast.cli.runtime_texts import progress_line
from holdfast.cli.server_runtimes import ServerRuntimes
from holdfast.cli.waiting import LONG_S, Deadline, OutOfTime, has_no_worker
from holdfast.client.runtime_wishes import Wish, wish_of
from holdfast.wire.http import Rejected


def _wish(context: click.Context, option: click.Parameter, value: str) -> Wish:
    try:
        return wish_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from None


@click.command("wait")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--for", "wish", default="phase=available", show_default=True, callback=_wish,
              metavar="phase=PHASE|condition=TYPE|deleted", help="What to wait for.")
@click.option("--timeout", metavar="DURATION", help="Give up after so long, with exit code 124.")
@server_options
def wait(
    names: tuple[str, ...],
    wish: Wish,
    timeout: str | None,
    server: str | None,
    token_file: Path | None,
) -> int:  # fmt: skip
    """Wait until runtimes are available, or as --for says.

    Exits 0 when they are, 1 when that cannot come any more, 124 when the time was up.
    """
    deadline = Deadline(timeout)
    with asking(server, token_file) as asker:
        if not wish.is_end:
            for name in names:
                if ServerRuntimes(asker).one(name) is None:
                    raise no_runtime(clean(name), f"at {asker.url}", asker.options)
        with asker.patient() as patient:
            return wait_for(patient, names, wish, deadline)


def wait_for(asker: Asker, names: Sequence[str], wish: Wish, deadline: Deadline) -> int:
    """Wait for one after the other, and tell on the way how each stands."""
    codes = [_wait_for_one(asker, name, wish, deadline) for name in names]
    return max(codes, default=0)


def _wait_for_one(asker: Asker, name: str, wish: Wish, deadline: Deadline) -> int:
    told, view, was_alone = "", ServerRuntimes(asker).one(name), False
    while view is not None and not wish.is_met(view):
        line = progress_line(view)
        if line != told:
            note(line)
            told = line
        if view["metadata"]["deletionTimestamp"] and not wish.lasts:
            note(f"{clean(name)} is being deleted; what you wait for cannot come")
            return REFUSED
        if not was_alone and not wish.is_end:
            was_alone = has_no_worker(asker)
            if was_alone:
                note(
                    f"no worker is connected to {asker.url}, so nothing starts. Start one: "
                    f"`holdfast worker start{asker.options}`"
                )
        view = _later(asker, view, wish, deadline)
    if view is None and not wish.is_end:
        note(f"{clean(name)} is gone; what you wait for cannot come")
        return REFUSED
    note(f"{clean(name)} is {'gone' if view is None else view['status']['phase']}")
    return 0


def _later(asker: Asker, view: View, wish: Wish, deadline: Deadline) -> View | None:
    """The runtime when it has changed, or after a while."""
    name = view["metadata"]["name"]
    try:
        wait_ms = max(1, int(deadline.left(LONG_S) * 1_000))
        version = view["metadata"]["resourceVersion"]
        return asker.get("runtimes", name, wait=f"{wait_ms}ms", version=version)
    except OutOfTime:
        raise Trouble(
            f"the time was up while {wish.text} of {clean(name)} was waited for; "
            f"{progress_line(view).rstrip('.')}. "
            f"`holdfast runtime show {clean(name)}{asker.options}` says more.",
            TIMED_OUT,
        ) from None
    except Rejected as no:
        if no.problem.code != "not_found":
            raise
    return None
