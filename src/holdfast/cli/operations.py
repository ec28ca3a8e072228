"""`holdfast operation list|show|undo|resume`, and how one request is made about many."""

from collections.abc import Mapping
from typing import Any, Final

import click
from msgspec import structs

from holdfast.cli.asking import Asker, asking
from holdfast.cli.errors import REFUSED, advised
from holdfast.cli.options import output_option, server_options
from holdfast.cli.output import (
    TABLES,
    View,
    clean,
    counted,
    draw_fields,
    emit_list,
    emit_one,
    note,
)
from holdfast.cli.progress import Meter, bar
from holdfast.cli.reading import Look, reads
from holdfast.cli.spans import clock
from holdfast.cli.stopping import Order, confirm, orders
from holdfast.cli.tables import cell, number, table_of, words
from holdfast.wire.operations import NewOperation, Undo

FIRST_WAIT: Final = "2s"
NEXT_WAIT: Final = "1s"
DONE: Final = "DONE"
LAST: Final = "last"

SAID: Final[Mapping[str, str]] = {
    "unchanged": "of {} there was nothing to do",
    "refused": "{} were refused",
    "started": "{} had begun and stay as they are",
    "moved_on": "{} have moved on since and stay as they are",
    "gone": "{} are no longer kept",
    "final": "{} were given up for good",
}
"""What is said of what an operation did not change."""


def perform(order: Order, body: NewOperation, noun: str, done: str) -> int:
    """Show how many it would be, ask, do it in one request, and say what came of it."""
    with asking(order.server, order.token_file) as asker:
        body = structs.replace(body, reason=order.reason, wait=FIRST_WAIT)
        found = asker.post("operations", body=structs.replace(body, dry_run=True))
        count = found[f"{noun}s"]
        plural = f"{noun}s"
        sample = [{"id": name} for name in found["sample"]]
        if order.dry_run:
            table = table_of(sample, cell(noun.upper(), "id")) if sample else ""
            emit_list(order.form, plural, sample, table if order.form in TABLES else "")
            note(f"nothing was done; {_counted(found)} would be {done}")
            return 0
        if not count:
            note(f"there are no such {plural}")
            return 0
        if count > len(found["sample"]) and not order.yes:
            shown = ", ".join(clean(name) for name in found["sample"])
            note(f"{_counted(found)}: {shown}, …")
        verb = body.verb.partition("_")[0]
        confirm(verb, range(count), noun, yes=order.yes)
        told = _awaited(asker, asker.post("operations", body=body))
    return _tell(order.form, told, done, asker.options)


def _counted(found: View) -> str:
    return f"{counted(found['tasks'], 'task')} of {counted(found['jobs'], 'job')}"


def _awaited(asker: Asker, told: View) -> View:
    """The operation when it is over; how far it is is drawn meanwhile."""
    if told["state"] == DONE:
        return told
    with bar(told["verb"].replace("_", " "), told["total"]) as advance:
        meter = Meter(advance)
        unit = "jobs" if told["verb"].endswith("jobs") else "tasks"
        while told["state"] == "RUNNING":
            meter.reached(told["outcomes"].get(unit, 0))
            told = asker.get("operations", told["id"], wait=NEXT_WAIT)
    return told


def _tell(form: str, told: View, done: str, options: str) -> int:
    outcomes: dict[str, int] = told["outcomes"]
    emit_one(form, told, "")
    for each in told["refusals"]:
        note(f"{clean(each['id'])}: {advised(each['why'], 'invalid_transition')}")
    tasks, jobs = outcomes.get("tasks", 0), outcomes.get("jobs", 0)
    said = [_counted({"jobs": jobs, "tasks": tasks}) + (" was " if tasks == 1 else " were ") + done]
    left = [name for name in SAID if outcomes.get(name)]
    said += [SAID[name].format(f"{outcomes[name]:,}") for name in left]
    note("; ".join(said))
    if told["state"] != DONE:
        note(f"it was cut off: `holdfast operation resume {told['id']}{options}` goes on with it")
        return REFUSED
    if told["can_undo"] and tasks:
        note(f"`holdfast operation undo {told['id']}{options}` takes back what has not begun")
    return REFUSED if outcomes.get("refused") else 0


@click.command("list")
@reads
def list_operations(look: Look, form: str) -> None:
    """List what was done to many at once, newest first."""
    with look.source() as source:
        views = source.operations()
        if not views and form in TABLES:
            note(f"nothing was done to many at once {source.place}")
            return
    emit_list(form, "operations", views, _table(views))


def _table(views: list[View]) -> str:
    return table_of(
        views,
        cell("OPERATION", "id"),
        cell("VERB", "verb"),
        cell("STATE", "state"),
        cell("AT UTC", lambda view: clock(view["at"])),
        number("TOTAL", "total"),
        number("TASKS", lambda view: view["outcomes"].get("tasks")),
        words("BY", "asked_by"),
        words("UNDO", lambda view: view["undone_by"] or view["undoes"]),
        words("REASON", "reason"),
    )


@click.command("show")
@click.argument("name", metavar="OPERATION|last")
@reads
def show_operation(look: Look, name: str, form: str) -> None:
    """Show one operation: what was asked, how far it got, whether it can be undone."""
    with look.source() as source:
        views = source.operations() if name == LAST else []
        view = source.operation(views[0]["id"] if views else name)
        text = operation_text(view, source.options)
    emit_one(form, view, text)


def operation_text(view: View, options: str) -> str:
    chosen = ", ".join(f"{key} {value}" for key, value in (view["selection"] or {}).items())
    fields: list[tuple[str, object]] = [
        ("operation", view["id"]),
        ("verb", view["verb"]),
        ("state", view["state"]),
        ("chosen", chosen),
        ("total", view["total"]),
        *((name.replace("_", " "), count) for name, count in view["outcomes"].items()),
        ("asked by", view["asked_by"]),
        ("reason", view["reason"]),
        ("at", view["at"]),
        ("undoes", view["undoes"]),
        ("undone by", view["undone_by"]),
        ("position", view["position"]),
    ]
    # A folder takes no orders: what is typed goes to the server.
    leads = "" if options.startswith(" --data") else options
    word = "undo" if view["state"] == DONE else "resume"
    next_one = f"\nNext: holdfast operation {word} {view['id']}{leads}\n"
    return draw_fields(fields) + (next_one if view["can_undo"] else "")


def _meant(asker: Asker, name: str) -> str:
    """The operation that is called so; `last` is the newest."""
    found = asker.get("operations")["operations"] if name == LAST else []
    return str(found[0]["id"]) if found else name


@click.command("undo")
@click.argument("name", metavar="OPERATION|last")
@orders
def undo(order: Order, name: str) -> int:
    """Take back what an operation did, as far as nothing has begun since.

    What it cancelled before it began waits again, what it retried and has not begun goes back to
    quarantine, what it moved gets its old time. The rest is counted, and why.
    """
    with asking(order.server, order.token_file) as asker:
        if order.dry_run:
            told = asker.post("operations", _meant(asker, name), "undo", body=Undo(dry_run=True))
            counts: dict[str, Any] = told["outcomes"]
            emit_one(order.form, told, draw_fields(list(counts.items())) if counts else "")
            count = counts.get("tasks", 0)
            note(f"nothing was done; {counted(count, 'task')} would be put back")
            return 0
        body = Undo(reason=order.reason, wait=FIRST_WAIT)
        told = _awaited(asker, asker.post("operations", _meant(asker, name), "undo", body=body))
        return _tell(order.form, told, "put back", asker.options)


@click.command("resume")
@click.argument("name", metavar="OPERATION")
@server_options
@output_option
def resume(name: str, server: str | None, token_file: Any, form: str) -> int:
    """Go on with an operation that was cut off."""
    with asking(server, token_file) as asker:
        told = _awaited(asker, asker.post("operations", name, "resume"))
        return _tell(form, told, "changed", asker.options)
