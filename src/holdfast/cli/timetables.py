"""`holdfast schedule list`, `show` and `next`: schedules as they are, and when they come."""

from datetime import datetime
from zoneinfo import ZoneInfo

import click

from holdfast.cli.options import watch_option
from holdfast.cli.output import (
    TABLES,
    Column,
    View,
    draw,
    draw_fields,
    emit_list,
    emit_one,
    note,
)
from holdfast.cli.reading import Look, reads
from holdfast.cli.spans import age, clock, span
from holdfast.cli.watched import watched


@click.command("list")
@reads
@click.option("--namespace", default="", help="Only those of this namespace.")
@watch_option
def list_schedules(look: Look, form: str, namespace: str, watch: bool) -> None:
    """List schedules, by name."""
    with look.source() as source:
        if watch:

            def again() -> list[View]:
                source.refresh()
                return source.schedules(namespace)

            watched(form, again, lambda views: schedules_table(views, source.now()))
            return
        views = source.schedules(namespace)
        if not views and form in TABLES:
            note(
                f"no schedules {source.place} yet; `holdfast schedule create NAME --every 1h -- "
                "COMMAND` makes one"
            )
            return
        emit_list(form, "schedules", views, schedules_table(views, source.now()))


@click.command("show")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@reads
def show(look: Look, names: tuple[str, ...], form: str) -> None:
    """Show schedules: what each runs, how far it has come and when it comes next."""
    with look.source() as source:
        views = [source.schedule(name) for name in names]
        text = "\n".join(map(schedule_text, views))
        if len(views) == 1:
            emit_one(form, views[0], text)
            return
        emit_list(form, "schedules", views, text)


@click.command("next")
@click.argument("name")
@click.option(
    "-n", "--count", type=click.IntRange(1, 1_000), default=5, show_default=True, help="So many."
)
@reads
def coming(look: Look, name: str, count: int, form: str) -> None:
    """Show the next instants of a schedule, by its own clock and in UTC."""
    with look.source() as source:
        zone = source.schedule(name)["zone"] or "UTC"
        found = source.coming(name, count)
        views = [{"name": at, "at": at, "local": local(at, zone)} for at in found]
        columns = [Column(zone.upper()), Column("UTC"), Column("IN", right=True)]
        now = source.now()
        rows = [[view["local"], clock(view["at"]), age(_ms(view["at"]) - now)] for view in views]
        emit_list(form, "coming", views, draw(columns, rows))


def local(time: str, zone: str) -> str:
    """What the clock on the wall shows there, with its distance from UTC."""
    shown = datetime.fromisoformat(time).astimezone(ZoneInfo(zone))
    return f"{shown:%a %Y-%m-%d %H:%M:%S %z}"


def _ms(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1_000)


def when(view: View) -> str:
    """`0 3 * * * Europe/Berlin`, or `every 10m`."""
    if view["cron"]:
        return f"{view['cron']} {view['zone']}"
    return f"every {span(view['every_ms'])}"


def schedules_table(views: list[View], now: int) -> str:
    columns = [
        Column("SCHEDULE", elastic=True),
        Column("STATE"),
        Column("WHEN", elastic=True),
        Column("NEXT UTC"),
        Column("IN", right=True),
        Column("RUNS", right=True),
        Column("SKIPPED", right=True),
        Column("LAST JOB"),
        Column("LAST"),
    ]
    rows = [
        [
            view["name"],
            view["state"],
            when(view),
            clock(view["next_at"]),
            age(_ms(view["next_at"]) - now) if view["next_at"] else None,
            view["runs"] or None,
            view["skipped"] or None,
            view["last_job"],
            view["last_state"],
        ]
        for view in views
    ]
    return draw(columns, rows)


def schedule_text(view: View) -> str:
    """One schedule in words, with the instants that come."""
    job = view["job"]
    zone = view["zone"] or "UTC"
    coming_at = [local(at, zone) for at in view["coming"]]
    fields: list[tuple[str, object]] = [
        ("schedule", view["name"]),
        ("state", view["state"]),
        ("reason", view["reason"]),
        ("when", when(view)),
        ("missed", view["missed"]),
        ("overlap", view["overlap"]),
        ("job", f"{job['name']} ({job['spec']['kind']}, {_tasks(job['tasks'])})"),
        ("namespace", view["namespace"]),
        ("runs", view["runs"]),
        ("skipped", view["skipped"] or None),
        ("last instant", view["last_at"]),
        ("last job", view["last_job"]),
        ("last state", view["last_state"]),
        ("created", view["created_at"]),
        ("updated", view["updated_at"]),
        *(("next" if not place else "", at) for place, at in enumerate(coming_at)),
    ]
    return draw_fields(fields)


def _tasks(count: int) -> str:
    return f"{count:,} task{'' if count == 1 else 's'}"
