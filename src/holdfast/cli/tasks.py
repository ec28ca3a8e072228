"""`holdfast task list` and `task show`: the tasks of a job, and one with its attempts."""

import click

from holdfast.cli.options import watch_option
from holdfast.cli.output import TABLES, View, chosen_states, emit_list, emit_one, note, row_limit
from holdfast.cli.reading import Look, reads
from holdfast.cli.selectors import find_named_tasks, find_tasks
from holdfast.cli.sources import LAST, Source
from holdfast.cli.tables import task_text, tasks_table
from holdfast.cli.watched import watched
from holdfast.core.task import TaskState


@click.command("list")
@click.argument("selector", metavar="[JOB|JOB/3-7]", default=LAST)
@reads
@click.option("--state", multiple=True, help="Only tasks in this state; several with commas.")
@click.option("--limit", type=int, help="At most so many. [default: 50 in a table]")
@watch_option
def list_tasks(
    look: Look,
    selector: str,
    form: str,
    state: tuple[str, ...],
    limit: int | None,
    watch: bool,
) -> None:
    """List the tasks of one job, by default the newest."""
    states = chosen_states(state, [each.name for each in TaskState]) if state else frozenset()
    most = row_limit(limit, form)

    with look.source() as source:
        job, indices = find_tasks(source, selector)
        if watch:
            _watch(source, form, job, states, most, indices if "/" in selector else None)
            return
        found = source.tasks(job, indices, states, most)
        found.tell(f"tasks of job {job['id']}")
        if form in TABLES and not found.views:
            note(_nothing(source, job))
            return
        emit_list(form, "tasks", found.views, tasks_table(found.views) if form in TABLES else "")


def _watch(
    source: Source,
    form: str,
    job: View,
    states: frozenset[str],
    most: int,
    indices: range | None,
) -> None:
    """The job stays the one it was when we began, and may grow."""

    def again() -> list[View]:
        source.refresh()
        now = source.job(job["id"])
        return source.tasks(now, indices or range(now["tasks"]), states, most).views

    watched(form, again, tasks_table)


@click.command("show")
@click.argument("selectors", metavar="JOB/INDEX...", nargs=-1, required=True)
@reads
def show_task(look: Look, selectors: tuple[str, ...], form: str) -> None:
    """Show tasks with all their attempts: JOB/3, last/0, or several as JOB/3-7.

    A job with only one task may be named alone.
    """
    views: list[View] = []
    with look.source() as source:
        for selector in selectors:
            job, indices = find_named_tasks(source, selector)
            views += [source.task(job, index) for index in indices]
    wide = form == "wide"
    if len(views) == 1:
        emit_one(form, views[0], task_text(views[0], wide=wide))
    else:
        emit_list(form, "tasks", views, "\n".join(task_text(view, wide=wide) for view in views))


def _nothing(source: Source, job: View) -> str:
    noun, what = ("task list", "has all") if job["tasks"] else ("job show", "says how it stands")
    such = "no such tasks" if job["tasks"] else "no tasks"
    return f"job {job['id']} has {such}; `holdfast {noun} {job['id']}{source.options}` {what}"
