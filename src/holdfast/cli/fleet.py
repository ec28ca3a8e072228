"""`holdfast worker list|show|cordon|uncordon|drain`: the workers of a server."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click

from holdfast.cli.asking import Asker, asking
from holdfast.cli.options import output_option, reason_option, server_options, watch_option
from holdfast.cli.output import TABLES, View, clean, draw_fields, emit_list, emit_one, note
from holdfast.cli.placing import named
from holdfast.cli.reading import Look, reads
from holdfast.cli.spans import age, clock, size
from holdfast.cli.tables import cell, number, table_of, wall_of, words
from holdfast.cli.watched import watched
from holdfast.wire.bodies import Reason

LEASES_SHOWN: Final = 50

_names = click.argument("names", metavar="NAME...", nargs=-1, required=True)


@click.command("list")
@reads
@watch_option
def list_workers(look: Look, form: str, watch: bool) -> None:
    """List workers and what they have in hand; those of a folder as they were noted."""

    def seen() -> list[View]:
        source.refresh()
        return source.workers()

    def drawn(views: list[View]) -> str:
        return workers_table(views, source.now(), wide=form == "wide")

    with look.source() as source:
        if watch:
            watched(form, seen, drawn)
            return
        views = source.workers()
        if not views and form in TABLES:
            way = "" if look.folder() is not None else source.options
            note(
                f"no worker has been heard of {source.place}; "
                f"`holdfast worker start{way}` starts one here, "
                f"`holdfast worker token{way}` lets one in from elsewhere"
            )
            return
        emit_list(form, "workers", views, drawn(views) if form in TABLES else "")


@click.command("show")
@click.argument("name")
@reads
def show_worker(look: Look, form: str, name: str) -> None:
    """Show one worker and the leases it holds."""
    with look.source() as source:
        view = source.worker(name)
    emit_one(form, view, worker_text(view))


@click.command()
@_names
@reason_option
@server_options
def cordon(
    names: tuple[str, ...], reason: str, server: str | None, token_file: Path | None
) -> None:
    """Give workers nothing more; what they have goes on. It holds for whoever has the name."""
    with asking(server, token_file) as asker:
        _note_absent(asker, names)
        for name in names:
            asker.post("workers", name, "cordon", body=Reason(reason=reason))
            note(
                f"worker {clean(name)} is cordoned; "
                f"`holdfast worker uncordon {clean(name)}{asker.options}` undoes it"
            )


@click.command()
@_names
@reason_option
@server_options
def uncordon(
    names: tuple[str, ...], reason: str, server: str | None, token_file: Path | None
) -> None:
    """Give workers work again."""
    with asking(server, token_file) as asker:
        for name in names:
            asker.post("workers", name, "uncordon", body=Reason(reason=reason))
            note(f"worker {clean(name)} gets work again")


@click.command()
@_names
@reason_option
@click.option("--wait", is_flag=True, help="Wait until they hold nothing any more.")
@server_options
@output_option
def drain(
    names: tuple[str, ...],
    reason: str,
    wait: bool,
    server: str | None,
    token_file: Path | None,
    form: str,
) -> None:
    """Cordon workers and ask back what they have not begun; what runs is finished."""
    with asking(server, token_file) as asker:
        _note_absent(asker, names)
        views: list[View] = []
        for name in names:
            told = asker.post("workers", name, "drain", body=Reason(reason=reason))
            views.append({"name": name, **told})
        # All of them are drained before one is waited for.
        for view in views if wait else ():
            view["left"] = _until_empty(asker, view["name"])
    drawn = table_of(
        views, cell("WORKER", "name"), number("ASKED BACK", "recalled"), number("LEFT", "left")
    )
    emit_list(form, "workers", views, drawn)


def _note_absent(asker: Asker, names: Sequence[str]) -> None:
    """A cordon is about a name, whoever has it; one that nobody has may be mistyped."""
    known = {worker["name"] for worker in asker.get("workers")["workers"]}
    for name in names:
        if name not in known:
            note(
                f"no worker {clean(name)} is there, and the name is cordoned all the same; "
                f"`holdfast worker list{asker.options}` lists those there are"
            )


def _until_empty(asker: Asker, name: str) -> int:
    with asker.patient() as patient:
        while True:
            left = len(patient.get("workers", name)["leases"])
            if not left:
                return left
            time.sleep(0.5)


def workers_table(views: Sequence[View], now: int, *, wide: bool = False) -> str:
    """Workers as rows. What is not known of one that is silent is left out."""
    more = (
        number("PID", lambda view: view.get("pid")),
        cell("VERSION", lambda view: view.get("version")),
        cell("RESOURCES", _resources),
        cell("ATTRIBUTES", _attributes),
    )
    return table_of(
        views,
        words("WORKER", "name"),
        cell("STATE", "state"),
        number("BUSY", lambda view: _slots(view, "/")),
        number("CPUS", _cpus),
        number("MEMORY", _memory),
        number("GPUS", lambda view: view.get("gpus") or None),
        number("LEASES", lambda view: view["leases"] or None),
        words("HOST", lambda view: view.get("host")),
        number("SEEN", partial(_seen, now)),
        words("WHY", lambda view: view["reason"] or ("cordoned" if view["cordoned"] else None)),
        *(more if wide else ()),
    )


def _slots(view: View, of: str) -> str | None:
    return f"{view['occupied']}{of}{view['slots']}" if "slots" in view else None


def _cpus(view: View) -> str | None:
    return f"{view['cpus']:g}" if "cpus" in view else None


def _memory(view: View) -> str | None:
    memory = view.get("memory_bytes")
    return size(memory) if memory else None


def _seen(now: int, view: View) -> str | None:
    seen = view.get("seen_at")
    return None if seen is None else age(now - wall_of(seen))


def _resources(view: View) -> str:
    return ", ".join(named(view.get("resources") or {}))


def _attributes(view: View) -> str:
    return ", ".join(f"{key}={value}" for key, value in (view.get("attributes") or {}).items())


def worker_text(view: View) -> str:
    """One worker in words, with what it holds."""
    leases: list[View] = view["leases"]
    occupied = _slots(view, " of ")
    fields: list[tuple[str, object]] = [
        ("worker", view["name"]),
        ("state", view["state"]),
        ("cordoned", (view["reason"] or "yes") if view["cordoned"] else None),
        ("host", view.get("host")),
        ("pid", view.get("pid")),
        ("version", view.get("version")),
        ("address", view.get("address")),
        ("incarnation", view["incarnation"]),
        ("since", view.get("since")),
        ("seen", view.get("seen_at")),
        ("missed", view.get("missed_renewals") or None),
        ("slots", f"{occupied} occupied" if occupied else None),
        ("cpus", _cpus(view)),
        ("memory", _memory(view)),
        ("gpus", view.get("gpus") or None),
        ("resources", _resources(view)),
        ("memory caps", view.get("memory_caps") or None),
        ("attributes", _attributes(view)),
        ("leases", len(leases)),
    ]
    text = draw_fields(fields)
    if leases:
        text += "\n" + leases_table(leases[:LEASES_SHOWN])
        if len(leases) > LEASES_SHOWN:
            text += f"and {len(leases) - LEASES_SHOWN} more; -o json has all\n"
    return text


def leases_table(leases: Sequence[View]) -> str:
    return table_of(
        leases,
        cell("ATTEMPT", "attempt"),
        cell("STATE", "state"),
        number("LEASE", "lease_id"),
        cell("STARTED UTC", lambda lease: clock(lease["started_at"])),
        cell("EXPIRES UTC", lambda lease: clock(lease["expires_at"])),
    )
