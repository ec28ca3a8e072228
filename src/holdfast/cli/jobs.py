"""`holdfast job`: list jobs, or show one."""

import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import click

from holdfast.cli.output import (
    Column,
    View,
    chosen_states,
    draw,
    draw_fields,
    emit_list,
    emit_one,
    note,
    shorten,
    typed,
)
from holdfast.cli.reading import folder_of, reads
from holdfast.cli.selectors import find_job, recall
from holdfast.cli.spans import age, span
from holdfast.coordinator.inspect import Moment, Reading, open_folder
from holdfast.coordinator.views import job_detail, job_view
from holdfast.core.job import Job, JobState, job_reason, job_state


@click.group()
def job() -> None:
    """List jobs, or show one."""


@job.command("list")
@reads
@click.option("--state", multiple=True, help="Only jobs in this state; several with commas.")
@click.option("--name", help="Only jobs of this name; * and ? stand for anything.")
@click.option("--limit", type=int, help="At most so many, newest first. [default: 50 in a table]")
def list_jobs(
    data: Path | None,
    at: Moment | None,
    form: str,
    state: tuple[str, ...],
    name: str | None,
    limit: int | None,
) -> None:
    """List the jobs of a log, newest first."""
    states = chosen_states(state, [each.value for each in JobState])
    reading = open_folder(folder_of(data), at)
    found = [
        job
        for job in reversed(reading.state.jobs.values())
        if job_state(job).value in states and (name is None or fnmatchcase(job.spec.name, name))
    ]
    chosen = shorten(found, limit, form, "jobs")
    views = [job_view(job, reading.wall) for job in chosen]
    drawn = ""
    if form in ("table", "wide"):
        if not views:
            note(_nothing(reading))
            return
        drawn = jobs_table(reading, chosen, wide=form == "wide")
    emit_list(form, "jobs", views, drawn)


@job.command("show")
@click.argument("selector", metavar="JOB")
@reads
def show_job(selector: str, data: Path | None, at: Moment | None, form: str) -> None:
    """Show one job. JOB is an id, the beginning of one, or `last`."""
    reading = recall(open_folder(folder_of(data), at), selector)
    found = find_job(reading, selector)
    view = job_detail(found, reading.wall)
    emit_one(form, view, job_text(reading, view))


def jobs_table(reading: Reading, jobs: Sequence[Job], *, wide: bool = False) -> str:
    """The jobs as rows: how far each is, and why it is as it is."""
    now = _now(reading)
    columns = [
        Column("JOB"),
        Column("NAME", elastic=True),
        Column("STATE"),
        Column("DONE", right=True),
        Column("RUN", right=True),
        Column("FAIL", right=True),
        Column("WAIT", right=True),
        Column("AGE", right=True),
        Column("WHY", elastic=True),
    ]
    if wide:
        columns += [Column("CREATED"), Column("UPDATED"), Column("KEY", elastic=True)]
    return draw(columns, [_row(reading, job, now, wide=wide) for job in jobs])


def _row(reading: Reading, job: Job, now: int, *, wide: bool) -> list[object]:
    view = job_view(job, reading.wall)
    counts = view["counts"]
    running = counts["LEASED"] + counts["RUNNING"] + counts["COMMITTED"]
    failed = counts["QUARANTINED"] + counts["KILLED"] + counts["UNSCHEDULABLE"]
    total = f"{view['tasks']}" if job.sealed else f"{view['tasks']}+"
    row: list[object] = [
        view["id"],
        view["name"],
        view["state"],
        f"{counts['SUCCEEDED']}/{total}",
        running or None,
        failed or None,
        counts["WAITING"] or None,
        age(now - reading.wall(job.created_at)),
        job_reason(job),
    ]
    return [*row, view["created_at"], view["updated_at"], view["key"]] if wide else row


def job_text(reading: Reading, view: View) -> str:
    """One job in words, with what to type next."""
    spec = view["spec"]
    counts = ", ".join(f"{count} {name.lower()}" for name, count in view["counts"].items() if count)
    state = view["state"] + (f" ({view['reason']})" if view["reason"] else "")
    fields: list[tuple[str, object]] = [
        ("job", view["id"]),
        ("name", view["name"]),
        ("state", state),
        ("tasks", f"{view['tasks']}: {counts}" if counts else "none yet"),
        ("sealed", None if view["sealed"] else "no: more items may come"),
        ("created", view["created_at"]),
        ("updated", view["updated_at"]),
        ("not before", view["not_before"]),
        ("times out", view["times_out_at"]),
        ("deadline", view["deadline"]),
        ("schedule by", view["schedule_by"]),
        ("runs", f"{spec['target']} ({spec['kind']})"),
        ("budgets", f"{spec['retries']} failures, {spec['max_losses']} losses a task"),
        ("timeout", span(spec["timeout_ms"]) if spec["timeout_ms"] else None),
        ("in parallel", spec["max_parallel"]),
        ("labels", ", ".join(f"{key}={value}" for key, value in spec["labels"].items())),
        ("key", view["key"]),
        ("generation", view["generation"] if view["generation"] > 1 else None),
        ("position", view["position"]),
    ]
    listed = f"holdfast task list {view['id']} --data {typed(reading.path)}"
    if view["counts"]["QUARANTINED"]:
        listed += " --state quarantined"
    return draw_fields(fields) + f"\nIts tasks: {listed}\n"


def _nothing(reading: Reading) -> str:
    everything = f"`holdfast job list --data {typed(reading.path)}`"
    if reading.state.jobs:
        return f"no such jobs in {reading.path}; {everything} has all"
    if reading.state.position < reading.folder.last:
        then = f"at position {reading.state.position}"
        return f"no jobs in {reading.path} yet, {then}; {everything} shows what came later"
    return f"no jobs in {reading.path} yet; `holdfast demo --keep` makes some"


def _now(reading: Reading) -> int:
    """Ages end now, or at the moment looked at."""
    if reading.state.position < reading.folder.last:
        return reading.wall(reading.state.time)
    return time.time_ns() // 1_000_000
