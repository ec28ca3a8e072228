"""`holdfast task`: list the tasks of a job, or show one with its attempts."""

from collections.abc import Sequence
from pathlib import Path

import click

from holdfast.cli.output import (
    Column,
    View,
    chosen_states,
    clean_text,
    draw,
    draw_fields,
    emit_list,
    emit_one,
    note,
    shorten,
    typed,
)
from holdfast.cli.reading import folder_of, reads
from holdfast.cli.selectors import LAST, find_one_task, find_tasks, recall
from holdfast.cli.spans import clock, span
from holdfast.coordinator.history import task_detail
from holdfast.coordinator.inspect import Moment, Reading, open_folder
from holdfast.coordinator.views import task_view
from holdfast.core.ids import Index
from holdfast.core.job import Job, state_of
from holdfast.core.task import TaskState


@click.group()
def task() -> None:
    """List the tasks of a job, or show one with its attempts."""


@task.command("list")
@click.argument("selector", metavar="[JOB|JOB/3-7]", default=LAST)
@reads
@click.option("--state", multiple=True, help="Only tasks in this state; several with commas.")
@click.option("--limit", type=int, help="At most so many. [default: 50 in a table]")
def list_tasks(
    selector: str,
    data: Path | None,
    at: Moment | None,
    form: str,
    state: tuple[str, ...],
    limit: int | None,
) -> None:
    """List the tasks of one job, by default the newest."""
    states = chosen_states(state, [each.name for each in TaskState])
    reading = recall(open_folder(folder_of(data), at), selector)
    job, indices = find_tasks(reading, selector)
    found: Sequence[int] = indices
    if state:
        found = [index for index in indices if state_of(job, Index(index)).name in states]
    chosen = shorten(found, limit, form, f"tasks of job {job.job_id}")
    views = [task_view(job, Index(index), reading.wall) for index in chosen]
    drawn = ""
    if form in ("table", "wide"):
        if not views:
            note(_nothing(reading, job))
            return
        drawn = tasks_table(views)
    emit_list(form, "tasks", views, drawn)


@task.command("show")
@click.argument("selectors", metavar="JOB/INDEX...", nargs=-1, required=True)
@reads
def show_task(selectors: tuple[str, ...], data: Path | None, at: Moment | None, form: str) -> None:
    """Show tasks with all their attempts: JOB/3, last/0, or several as JOB/3-7.

    A job with only one task may be named alone.
    """
    opened = open_folder(folder_of(data), at)
    views: list[View] = []
    for selector in selectors:
        reading = recall(opened, selector)
        if "/" in selector:
            job, indices = find_tasks(reading, selector)
        else:
            job, index = find_one_task(reading, selector)
            indices = range(index, index + 1)
        views += [task_detail(reading, job, Index(index)) for index in indices]
    wide = form == "wide"
    if len(views) == 1:
        emit_one(form, views[0], task_text(views[0], wide=wide))
    else:
        emit_list(form, "tasks", views, "\n".join(task_text(view, wide=wide) for view in views))


def _nothing(reading: Reading, job: Job) -> str:
    noun, what = ("task list", "has all") if job.count else ("job show", "says how it stands")
    such = "no such tasks" if job.count else "no tasks"
    command = f"holdfast {noun} {job.job_id} --data {typed(reading.path)}"
    return f"job {job.job_id} has {such}; `{command}` {what}"


def tasks_table(views: list[View]) -> str:
    columns = [
        Column("TASK"),
        Column("STATE"),
        Column("ATTEMPT", right=True),
        Column("LEASE", right=True),
        Column("WORKER", elastic=True),
        Column("STARTED UTC"),
        Column("NOT BEFORE UTC"),
    ]
    names = ("id", "state", "attempt", "lease_id", "worker")
    times = ("started_at", "not_before")
    rows = [[*(view[n] for n in names), *(clock(view[t]) for t in times)] for view in views]
    return draw(columns, rows)


def task_text(view: View, *, wide: bool = False) -> str:
    """One task in words: how it stands, what it has used, and each attempt."""
    failures, losses = view["failures"], view["losses"]
    state = view["state"] + (f" ({view['reason']})" if view["reason"] else "")
    fields: list[tuple[str, object]] = [
        ("task", view["id"]),
        ("state", state),
        ("failures", f"{failures['used']} of {failures['allowed']} allowed"),
        ("losses", f"{losses['used']} of {losses['allowed']} allowed"),
        ("not before", view["not_before"]),
        ("finished", view["finished_at"]),
        ("exit code", view["exit_code"]),
        ("result", None if view["result_bytes"] is None else f"{view['result_bytes']} bytes"),
        ("error", view["error"]),
    ]
    text = draw_fields(fields)
    if view["attempts"]:
        text += "\n" + attempts_table(view["attempts"], wide=wide)
    if view["traceback"]:
        text += "\n" + clean_text(view["traceback"]).rstrip() + "\n"
    return text


def attempts_table(attempts: list[View], *, wide: bool = False) -> str:
    columns = [
        Column("ATTEMPT"),
        Column("STATUS"),
        Column("REASON"),
        Column("WORKER", elastic=True),
        Column("STARTED UTC"),
        Column("TOOK", right=True),
        Column("EXIT", right=True),
        Column("ERROR", elastic=True),
    ]
    rows = []
    for view in attempts:
        took = None if view["duration_ms"] is None else span(view["duration_ms"])
        rows.append(
            [
                *(view[name] for name in ("id", "status", "reason", "worker")),
                *(clock(view["started_at"]), took, view["exit_code"], view["error"]),
            ]
        )
    if wide:
        more = ("lease_id", "lease_expires_at", "finished_at", "charged", "position")
        columns += [Column(name.replace("_", " ").upper()) for name in more]
        rows = [
            [*row, *(view[name] for name in more)] for row, view in zip(rows, attempts, strict=True)
        ]
    return draw(columns, rows)
