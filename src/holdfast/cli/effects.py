"""`holdfast effect list|show|retry|discard`: what commits owe, and what people decide about it."""

import json
from collections.abc import Sequence
from typing import Any, Final

import click

from holdfast.cli.asking import asking
from holdfast.cli.errors import USAGE, Trouble
from holdfast.cli.options import watch_option
from holdfast.cli.output import (
    TABLES,
    View,
    chosen_states,
    clean_text,
    draw_fields,
    emit_list,
    emit_one,
    note,
    row_limit,
)
from holdfast.cli.reading import Look, reads
from holdfast.cli.servers import FromServer
from holdfast.cli.sources import Source
from holdfast.cli.spans import clock
from holdfast.cli.stopping import Order, confirm, orders, would
from holdfast.cli.tables import cell, effects_table, number, table_of, words
from holdfast.cli.watched import watched
from holdfast.core.ids import parse_effect_name
from holdfast.core.owed import BLOCK, FILE, KINDS, OWED_STATES, PARKED, DebtName
from holdfast.wire.bodies import ChosenEffects
from holdfast.wire.wanted import EFFECT_STATES, WantedEffects, effect_states

TOGETHER: Final = 1_000
"""So many are named in one request."""
BODY_LETTERS: Final = 4_000
"""So much of a body is shown to people; programs get all of it."""

_sink = click.option("--sink", default="", metavar="NAME", help="Only those for this sink.")
_job = click.option("--job", default="", metavar="JOB", help="Only those of this job.")
_kind = click.option("--kind", type=click.Choice(KINDS), help="Only those of this kind.")
_named = click.argument("names", metavar="[JOB/INDEX.N...]", nargs=-1)
_every = click.option("--all-parked", is_flag=True, help="Everything that is parked.")


@click.command("list")
@reads
@click.option("--state", multiple=True,
              help="Only those that are owed (all of them), ready, delivering, waiting or parked; "
              "several with commas.")  # fmt: skip
@_sink
@_job
@_kind
@click.option("--limit", type=int, help="At most so many. [default: 50 in a table]")
@watch_option
def list_effects(
    look: Look,
    form: str,
    state: tuple[str, ...],
    sink: str,
    job: str,
    kind: str | None,
    limit: int | None,
    watch: bool,
) -> None:
    """List what commits owe, oldest first, and why it is still owed."""
    states = effect_states(chosen_states(state, EFFECT_STATES) if state else ())
    most = row_limit(limit, form)
    is_wide = form == "wide"
    with look.source() as source:
        wanted = WantedEffects(
            states=states, sink=sink, job=_job_id(source, job), kind=kind or ""
        )
        if watch:

            def again() -> list[View]:
                source.refresh()
                return source.effects(wanted, most).views

            watched(form, again, lambda views: effects_table(views, wide=is_wide))
            return
        found = source.effects(wanted, most)
        found.tell("effects")
        if form in TABLES and not found.views:
            note(_nothing(source, wanted))
            return
        emit_list(form, "effects", found.views, effects_table(found.views, wide=is_wide))


def _job_id(source: Source, job: str) -> str:
    return str(source.job(job)["id"]) if job else ""


def _nothing(source: Source, wanted: WantedEffects) -> str:
    if wanted == WantedEffects():
        return f"nothing is owed {source.place}"
    return f"no such effects {source.place}; `holdfast effect list{source.options}` has all"


@click.command("show")
@click.argument("names", metavar="JOB/INDEX.N...", nargs=-1, required=True)
@reads
def show_effect(look: Look, names: tuple[str, ...], form: str) -> None:
    """Show effects: what each is, what it holds and every try, also those that are settled."""
    chosen = [_parsed(name) for name in names]
    with look.source() as source:
        views = [source.effect(name) for name in chosen]
        texts = [effect_text(view, source.options) for view in views]
    if len(views) == 1:
        emit_one(form, views[0], texts[0])
    else:
        emit_list(form, "effects", views, "\n".join(texts))


def effect_text(view: View, options: str) -> str:
    """One entry in words, with its tries and what to type next."""
    fields: list[tuple[str, object]] = [
        ("effect", view["id"]),
        ("state", view["state"]),
        ("why", view["why"]),
        ("kind", view["kind"]),
        ("file system" if view["kind"] == FILE else "sink", view["place"]),
        ("path" if view["kind"] == FILE else "key", view["key"]),
        ("task", view["task"]),
        ("tries", view["tries"] or None),
        ("next try", view["next_at"]),
        ("committed", view["committed_at"]),
        ("position", view["position"]),
        ("idempotency key", view["idempotency_key"]),
        ("size", f"{view['body_bytes']} bytes" if view["body_bytes"] else None),
    ]
    text = draw_fields(fields)
    if view["body"] is not None:
        text += f"\n{_body(view['body'])}\n"
    if view["history"]:
        text += "\n" + _history(view["history"])
    if not view["history_complete"]:
        text += "\nThis may not be all of it: the log has grown too long since.\n"
    if view["command"]:
        # A folder takes no orders: what is typed goes to the server.
        leads = "" if options.startswith(" --data") else options
        text += f"\nNext: {clean_text(view['command'])}{leads}\n"
    return text


def _body(body: Any) -> str:
    text = clean_text(json.dumps(body, indent=2, ensure_ascii=False))
    if len(text) <= BODY_LETTERS:
        return text
    return f"{text[:BODY_LETTERS]}\n… -o json shows all of it"


def _history(history: Sequence[View]) -> str:
    return table_of(
        history,
        cell("TIME UTC", lambda view: clock(view["time"])),
        cell("ACTION", "action"),
        words("BY", "actor"),
        number("TRIES", lambda view: view["details"].get("tries")),
        words("WHAT", lambda view: view["details"].get("error") or view["reason"]),
    )


def _parsed(name: str) -> DebtName:
    parsed = parse_effect_name(name)
    if parsed is None:
        raise Trouble(f"{name} names no effect: write JOB/INDEX.N, such as 12/3.0.", USAGE)
    return DebtName(*parsed)


@click.command("retry")
@_named
@_sink
@_job
@_kind
@_every
@orders
def retry(order: Order, names: tuple[str, ...], **chosen: Any) -> int:
    """Have effects tried again at once, each with a fresh budget.

    Those that are named, or the parked ones of a sink, a job or a kind, or everything that is
    parked. A block is never run again: look at what it has done, then discard it.
    """
    return _settle(order, names, chosen, "retry")


@click.command("discard")
@_named
@_sink
@_job
@_kind
@_every
@orders
def discard(order: Order, names: tuple[str, ...], **chosen: Any) -> int:
    """Give effects up: they are owed no more, and have perhaps never happened.

    Chosen as for retry. --reason is required and is recorded.
    """
    if not order.reason.strip() and not order.dry_run:
        raise click.UsageError("Say why they are given up: --reason 'booked by hand'.")
    return _settle(order, names, chosen, "discard")


def _settle(order: Order, names: tuple[str, ...], chosen: dict[str, Any], verb: str) -> int:
    done = {"retry": "retried", "discard": "discarded"}[verb]
    narrowed = any((chosen["sink"], chosen["job"], chosen["kind"], chosen["all_parked"]))
    if bool(names) == narrowed:
        raise click.UsageError(
            "Name effects (12/3.0), or choose parked ones: --sink, --job, --kind or --all-parked."
        )
    parsed = [_parsed(name) for name in names]
    with asking(order.server, order.token_file, strict=order.strict) as asker:
        source = FromServer(asker)
        views = _by_name(source, parsed) if parsed else _parked(source, chosen, verb)
        if order.dry_run:
            table = effects_table(views) if views else ""
            return would(order.form, "effects", views, table, done)
        if verb == "discard" and len(views) > 1:
            confirm(verb, views, "effect", yes=order.yes)
        count = 0
        for first in range(0, len(views), TOGETHER):
            ids = [view["id"] for view in views[first : first + TOGETHER]]
            body = ChosenEffects(ids=ids, reason=order.reason)
            count += asker.post("effects", verb, body=body)[done]
    emit_list(order.form, "effects", views, "")
    note(_told(count, len(views), done))
    return 0


def _told(count: int, asked: int, done: str) -> str:
    effects = "1 effect was" if count == 1 else f"{count:,} effects were"
    if not asked:
        return "there are no such effects; nothing was done"
    left = asked - count
    others = f"; of {left:,} there was nothing to do" if left else ""
    return f"{effects} {done}{others}"


def _by_name(source: FromServer, names: Sequence[DebtName]) -> list[View]:
    """Those that are named, each once, but for those that are settled."""
    found: list[View] = []
    for name in dict.fromkeys(names):
        view = source.effect(name)
        if view["state"] in OWED_STATES:
            found.append(view)
        else:
            note(f"{view['id']} is {view['state']}: it is owed no more")
    return found


def _parked(source: FromServer, chosen: dict[str, Any], verb: str) -> list[View]:
    wanted = WantedEffects(
        states=frozenset({PARKED}),
        sink=chosen["sink"],
        job=_job_id(source, chosen["job"]),
        kind=chosen["kind"] or "",
    )
    views = source.effects(wanted).views
    if verb == "discard":
        return views
    blocks = [view["id"] for view in views if view["kind"] == BLOCK]
    if blocks:
        note(
            f"{len(blocks)} of them are blocks, which run at most once ({', '.join(blocks[:3])}): "
            "look at what they have done, then `holdfast effect discard`"
        )
    return [view for view in views if view["kind"] != BLOCK]
