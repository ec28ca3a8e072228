"""`holdfast schedule create|pause|resume|run|backfill|delete`: commands that come again."""

from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from holdfast.cli.asking import asking
from holdfast.cli.bundles import brought
from holdfast.cli.instants import instant
from holdfast.cli.options import output_option, server_options
from holdfast.cli.output import clean, emit_list, emit_one, note
from holdfast.cli.submit import body_of, check, describes
from holdfast.cli.timetables import schedule_text
from holdfast.core.schedule import MISSED, OVERLAPS
from holdfast.wire.bodies import Reason
from holdfast.wire.schedules import NewSchedule, Range, Timetable

_reason = click.option("--reason", default="", help="Why; it is recorded.")
_names = click.argument("names", metavar="NAME...", nargs=-1, required=True)


@click.command()
@click.argument("schedule", metavar="NAME")
@click.option("--cron", default="", metavar="EXPRESSION",
              help="Minute, hour, day of month, month, day of week: '30 2 * * 1-5', @daily.")
@click.option("--every", default="", metavar="DURATION", help="So often, such as 10m.")
@click.option("--zone", default="UTC", show_default=True, metavar="ZONE",
              help="The time zone that --cron is read in, such as Europe/Berlin.")
@click.option("--missed", type=click.Choice(MISSED), default="one", show_default=True,
              help="What becomes of instants that passed while the server was away.")
@click.option("--overlap", type=click.Choice(OVERLAPS), default="skip", show_default=True,
              help="What becomes of an instant while the run before goes on.")
@click.option("--start", default="", metavar="TIME|DURATION",
              help="Not before this; --every counts from here.")
@click.option("--replace", is_flag=True, help="Give a schedule of this name this definition.")
@click.option("--array", type=click.IntRange(min=1), metavar="N", help="So many tasks a run.")
@describes
@server_options
@output_option
@click.argument("command", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def create(
    schedule: str,
    command: tuple[str, ...],
    replace: bool,
    server: str | None,
    token_file: Path | None,
    form: str,
    **asked: Any,
) -> None:
    """Have a command run again and again, by --cron or --every.

    Each run is a job of its own. It finds the instant that it is for in $HOLDFAST_SCHEDULED_AT.
    --name is what those jobs are called, NAME the schedule.
    """
    if bool(asked["cron"]) == bool(asked["every"]):
        raise click.UsageError("Say when: either --cron EXPRESSION or --every DURATION.")
    body = body_of(command, asked)
    body.count = asked["array"]
    check(body)
    table = Timetable(
        job=body,
        start=instant(asked["start"], "--start"),
        **{word: asked[word] for word in ("cron", "every", "zone", "missed", "overlap")},
    )
    with asking(server, token_file) as asker:
        if asked["bundle"]:
            body.bundle = brought(asker, asked["bundle"])
        if replace:
            view = asker.put("schedules", schedule, body=table)
        else:
            view = asker.post("schedules", body=_named(schedule, table))
        emit_one(form, view, schedule_text(view))


def _named(name: str, table: Timetable) -> Struct:
    fields = {field: getattr(table, field) for field in table.__struct_fields__}
    return NewSchedule(name=name, **fields)


@click.command()
@_names
@_reason
@server_options
def pause(names: tuple[str, ...], reason: str, server: str | None, token_file: Path | None) -> None:
    """Begin nothing more by the clock; what runs goes on."""
    with asking(server, token_file) as asker:
        for name in names:
            asker.post("schedules", name, "pause", body=Reason(reason=reason))
            note(
                f"schedule {clean(name)} is paused; "
                f"`holdfast schedule resume {clean(name)}{asker.options}` undoes it"
            )


@click.command()
@_names
@_reason
@server_options
def resume(
    names: tuple[str, ...], reason: str, server: str | None, token_file: Path | None
) -> None:
    """Go on with the next instant from now; what came meanwhile is not made up for."""
    with asking(server, token_file) as asker:
        for name in names:
            view = asker.post("schedules", name, "resume", body=Reason(reason=reason))
            note(f"schedule {clean(name)} comes next at {view['next_at']}")


@click.command()
@click.argument("name")
@_reason
@click.option("--wait", is_flag=True, help="Wait for its end, and exit as `job wait` does.")
@server_options
@output_option
def run(
    name: str, reason: str, wait: bool, server: str | None, token_file: Path | None, form: str
) -> int:
    """Run a schedule's command now, whatever its clock says, and print the id of the job."""
    with asking(server, token_file) as asker:
        told = asker.post("schedules", name, "run", body=Reason(reason=reason))
        emit_one(form, {"id": told["job_id"]}, f"{told['job_id']}\n")
        if not wait:
            return 0
        from holdfast.cli.waiting import outcome_of, until_ended

        view = asker.get("jobs", told["job_id"])
        with asker.patient() as patient:
            return outcome_of([until_ended(patient, view, None)])


@click.command()
@click.argument("name")
@click.option("--from", "first", required=True, metavar="TIME", help="The first moment of it.")
@click.option("--until", "last", default="", metavar="TIME", help="The last. [default: now]")
@server_options
@output_option
def backfill(
    name: str, first: str, last: str, server: str | None, token_file: Path | None, form: str
) -> None:
    """Run the instants of a stretch of the past and print the ids of the jobs.

    An instant whose run is known has none again.
    """
    body = Range(first=instant(first, "--from"), last=instant(last, "--until"))
    with asking(server, token_file) as asker:
        told = asker.post("schedules", name, "backfill", body=body)
    runs = [{"id": job_id} for job_id in told["job_ids"]]
    emit_list(form, "jobs", runs, "".join(f"{job_id}\n" for job_id in told["job_ids"]))
    known = told["instants"] - len(runs)
    if known:
        note(f"{known} of {told['instants']} instants have a run already")
    elif not runs:
        note(f"schedule {clean(name)} has no instant in that time")


@click.command()
@_names
@server_options
def delete(names: tuple[str, ...], server: str | None, token_file: Path | None) -> None:
    """Remove schedules; the runs they began go on."""
    with asking(server, token_file) as asker:
        for name in names:
            asker.delete("schedules", name)
            note(f"schedule {clean(name)} is removed")
