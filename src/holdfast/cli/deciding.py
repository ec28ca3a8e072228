"""Stopping jobs and tasks, sending them back, moving them: one by name, or many by one request."""

from collections.abc import Sequence
from typing import Any

import click

from holdfast.cli.asking import Asker, asking
from holdfast.cli.choosing import chooses, is_one
from holdfast.cli.edits import edits_of, set_option
from holdfast.cli.errors import NOT_FOUND, Trouble
from holdfast.cli.instants import instant
from holdfast.cli.operations import perform
from holdfast.cli.output import TABLES, View, emit_list, note
from holdfast.cli.selectors import ENDED, UNFINISHED, find_one_task
from holdfast.cli.servers import FromServer
from holdfast.cli.stopping import Order, orders, would
from holdfast.cli.tables import cell, jobs_table, number, table_of, tasks_table
from holdfast.core.operation import (
    CANCEL_JOBS,
    CANCEL_TASKS,
    RESCHEDULE_TASKS,
    RETRY_JOBS,
    RETRY_TASKS,
)
from holdfast.wire.bodies import Reason, Reschedule, Retries
from holdfast.wire.operations import NewOperation, Selection

_jobs = click.argument("selectors", metavar="[JOB...]", nargs=-1)
_tasks = click.argument("selectors", metavar="[JOB/3-7...]", nargs=-1)


@click.command("cancel")
@_jobs
@click.option("--prefix", is_flag=True, help="Take the beginning of an id for the whole.")
@chooses
@orders
def cancel_job(order: Order, selection: Selection, prefix: bool) -> int:
    """Stop jobs: nothing more of them runs, and what runs is stopped.

    JOB is a whole id, `last`, `all` (those that have not ended) or numbers such as 1-10:2. Many
    are stopped by one request, which `holdfast operation undo` takes back as far as it can.
    """
    if not is_one(selection):
        return perform(order, NewOperation(verb=CANCEL_JOBS, selection=selection), "job", "stopped")
    with asking(order.server, order.token_file, strict=order.strict) as asker:
        source = FromServer(asker)
        job = source.job(selection.names[0])
        if not prefix:
            exact(selection.names[0], job)
        if order.dry_run:
            left = [job] if job["state"] in UNFINISHED else []
            return would(order.form, "jobs", left, jobs_table(left, source.now()), "cancelled")
        told = asker.post("jobs", job["id"], "cancel", body=Reason(reason=order.reason))
    return _one(order.form, "jobs", {"id": job["id"], **told})


@click.command("retry")
@click.argument("selectors", metavar="[JOB|JOB/3-7...]", nargs=-1)
@set_option
@chooses
@orders
def retry_job(order: Order, selection: Selection, changes: tuple[str, ...]) -> int:
    """Send tasks back with fresh budgets: those of a job that may come back, or the ones named."""
    edits = edits_of(changes)
    has_tasks = any("/" in name for name in selection.names)
    if not is_one(selection):
        verb = RETRY_TASKS if has_tasks else RETRY_JOBS
        noun = "task" if has_tasks else "job"
        body = NewOperation(verb=verb, selection=selection, set=edits)
        return perform(order, body, noun, "sent back")
    with asking(order.server, order.token_file, strict=order.strict) as asker:
        source = FromServer(asker)
        if has_tasks:
            job, index = find_one_task(source, selection.names[0])
            indices = [index]
        else:
            job, indices = source.job(selection.names[0]), []
        if order.dry_run:
            return would(order.form, "jobs", [job], jobs_table([job], source.now()), "retried")
        body_of_one = Retries(indices=indices, reason=order.reason, set=edits)
        told = asker.post("jobs", job["id"], "retry", body=body_of_one)
    return _one(order.form, "jobs", {"id": job["id"], **told})


@click.command("cancel")
@_tasks
@chooses
@orders
def cancel_task(order: Order, selection: Selection) -> int:
    """Stop tasks; the others of their job go on."""
    if not is_one(selection):
        body = NewOperation(verb=CANCEL_TASKS, selection=selection)
        return perform(order, body, "task", "stopped")
    with asking(order.server, order.token_file, strict=order.strict) as asker:
        source = FromServer(asker)
        job, index = find_one_task(source, selection.names[0])
        if order.dry_run:
            views = source.tasks(job, [index], frozenset()).views
            left = [view for view in views if view["state"] not in ENDED]
            return would(order.form, "tasks", left, tasks_table(left), "cancelled")
        name = f"{job['id']}/{index}"
        told = _post(asker, name, "cancel", Reason(reason=order.reason))
    return _one(order.form, "tasks", {"id": name, **told})


@click.command("retry")
@_tasks
@chooses
@orders
def retry_task(order: Order, selection: Selection) -> int:
    """Send tasks back with fresh budgets: those in quarantine, and those nobody took in time."""
    body = NewOperation(verb=RETRY_TASKS, selection=selection)
    return perform(order, body, "task", "sent back")


@click.command()
@_tasks
@click.option("--delay", default="", metavar="DURATION", help="Not before so long from now.")
@click.option("--not-before", default="", metavar="TIME", help="Not before this time.")
@click.option("--now", is_flag=True, help="As soon as a worker is free.")
@chooses
@orders
def reschedule(
    order: Order, selection: Selection, delay: str, not_before: str, now: bool
) -> int:
    """Move when waiting tasks may begin: after a delay, at a time, or now."""
    if sum(map(bool, (delay, not_before, now))) != 1:
        raise click.UsageError("say when, and only once: --delay, --not-before or --now")
    when = instant(not_before, "--not-before")
    if not is_one(selection) or order.dry_run:
        body = NewOperation(
            verb=RESCHEDULE_TASKS, selection=selection, delay=delay, not_before=when
        )
        return perform(order, body, "task", "moved")
    with asking(order.server, order.token_file, strict=order.strict) as asker:
        job, index = find_one_task(FromServer(asker), selection.names[0])
        name = f"{job['id']}/{index}"
        told = _post(asker, name, "reschedule", Reschedule(delay=delay, not_before=when))
    return _one(order.form, "tasks", {"id": name, **told})


def _post(asker: Asker, task_id: str, verb: str, body: Any) -> View:
    job_id, _, index = task_id.rpartition("/")
    return asker.post("tasks", job_id, index, verb, body=body)


def exact(text: str, job: View) -> None:
    """What is stopped is stopped for good, so an id must have been written whole."""
    if text not in (job["id"], "last"):
        raise Trouble(
            f"there is no job {text}, but there is {job['id']}: write it whole, or add --prefix.",
            NOT_FOUND,
        )


def _one(form: str, plural: str, view: View) -> int:
    """What became of the one that was named."""
    if 0 in (view.get("stopped"), view.get("retried")):
        note(f"nothing of {view['id']} was left to be done")
    emit_list(form, plural, [view], _table(plural, [view]) if form in TABLES else "")
    return 0


def _table(plural: str, views: Sequence[View]) -> str:
    counted = [name for name in ("stopped", "retried") if name in views[0]]
    title = plural.upper().removesuffix("S")
    return table_of(views, cell(title, "id"), *(number(n.upper(), n) for n in counted))
