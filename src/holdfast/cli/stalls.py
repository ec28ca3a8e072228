"""`holdfast stall list|show|approve`: what hangs, and what people decide about it."""

from typing import Final

import click

from holdfast.cli.asking import asking
from holdfast.cli.errors import NOT_FOUND, REFUSED, USAGE, Trouble
from holdfast.cli.options import watch_option
from holdfast.cli.output import TABLES, View, clean, draw_fields, emit_list, emit_one, note
from holdfast.cli.reading import Look, reads
from holdfast.cli.servers import FromServer
from holdfast.cli.spans import span
from holdfast.cli.stopping import Order, confirm, orders, would
from holdfast.cli.tables import cell, number, table_of, words
from holdfast.cli.watched import watched
from holdfast.scheduler.stalls import MEANINGS
from holdfast.wire.amounts import duration_ms
from holdfast.wire.bodies import ChosenStalls

ALL: Final = "all"
TOGETHER: Final = 500
RECOVERED: Final = "recovered"
SAID: Final = {
    "moved_on": "it has moved on; nothing was done",
    "not_stalled": "it does not hang",
    "not_recoverable": "there is no attempt to end",
}

_timeout = click.option(
    "--timeout", default="10m", metavar="DURATION",
    help="How long something hangs to count, of a folder. [default: 10m; a server has its own]",
)  # fmt: skip


@click.command("list")
@reads
@click.option("--kind", type=click.Choice(tuple(MEANINGS)), help="Only stalls of this kind.")
@_timeout
@watch_option
def list_stalls(look: Look, form: str, kind: str | None, timeout: str, watch: bool) -> None:
    """List what hangs, the oldest first.

    A folder shows what its log tells: leases, ties, sinks. What attempts said of their progress
    only the server knows.
    """
    patience_ms = _patience(timeout)
    with look.source() as source:

        def found() -> list[View]:
            return [view for view in source.stalls(patience_ms) if kind in (None, view["kind"])]

        if watch:

            def again() -> list[View]:
                source.refresh()
                return found()

            watched(form, again, stalls_table)
            return
        views = found()
        if not views and form in TABLES:
            note(f"nothing hangs {source.place}")
            return
        emit_list(form, "stalls", views, stalls_table(views))


def stalls_table(views: list[View]) -> str:
    return table_of(
        views,
        cell("STALL", "id"),
        cell("KIND", "kind"),
        number("AGE", lambda view: span(view["age_ms"])),
        words("WORKER", "worker"),
        words("WHY", "why"),
        words("TRY", "command"),
    )


@click.command("show")
@click.argument("name", metavar="STALL")
@reads
@_timeout
def show_stall(look: Look, name: str, form: str, timeout: str) -> None:
    """Show one stall: since when, why, and what to type about it."""
    with look.source() as source:
        views = source.stalls(_patience(timeout))
        view = next((each for each in views if each["id"] == name), None)
        if view is None:
            raise Trouble(
                f"{clean(name)} does not hang {source.place}. "
                f"`holdfast stall list{source.options}` lists what does.",
                NOT_FOUND,
            )
    fields: list[tuple[str, object]] = [
        ("stall", view["id"]),
        ("kind", view["kind"]),
        ("means", view["means"]),
        ("why", view["why"]),
        ("since", view["since"]),
        ("age", span(view["age_ms"])),
        ("task", view["task"]),
        ("worker", view["worker"]),
        ("lease", view["lease_id"]),
    ]
    emit_one(form, view, draw_fields(fields) + f"\nNext: {clean(view['command'])}\n")


@click.command("approve")
@click.argument("names", metavar="STALL...|all", nargs=-1, required=True)
@orders
def approve(order: Order, names: tuple[str, ...]) -> int:
    """End attempts that hang, within their budgets: each is charged as a failure, its task waits
    for a while or goes to quarantine.

    STALL is an attempt as `holdfast stall list` shows it, such as 12/3:2, or `all`. A task that
    has moved on meanwhile is left alone.
    """
    with asking(order.server, order.token_file) as asker:
        known = FromServer(asker).stalls(0)
        wanted = [view["id"] for view in known if view["recoverable"]]
        if names != (ALL,):
            wanted = list(dict.fromkeys(names))
        if order.dry_run:
            views = [view for view in known if view["id"] in wanted]
            return would(order.form, "stalls", views, stalls_table(views), "recovered")
        if names == (ALL,):
            confirm("end", wanted, "stalled attempt", yes=order.yes)
        done: list[View] = []
        for first in range(0, len(wanted), TOGETHER):
            body = ChosenStalls(ids=wanted[first : first + TOGETHER], reason=order.reason)
            done += asker.post("stalls", "approve", body=body)["stalls"]
    for view in done:
        if view["outcome"] != RECOVERED:
            hint = f"; try `{clean(view['command'])}`" if view["command"] else ""
            note(f"{clean(view['id'])}: {SAID[view['outcome']]}{hint}")
    count = sum(view["outcome"] == RECOVERED for view in done)
    table = table_of(done, cell("STALL", "id"), cell("OUTCOME", "outcome")) if done else ""
    emit_list(order.form, "stalls", done, table)
    note("1 attempt was ended" if count == 1 else f"{count:,} attempts were ended")
    return 0 if count == len(done) else REFUSED


def _patience(timeout: str) -> int:
    try:
        return duration_ms(timeout, "--timeout")
    except ValueError as error:
        raise Trouble(str(error), USAGE) from None
