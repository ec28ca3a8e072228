"""Stopping jobs and tasks, sending them back, moving them: what people decide about work."""

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from msgspec import Struct

from holdfast.cli.asking import Asker, asking
from holdfast.cli.edits import edits_of, set_option
from holdfast.cli.errors import NOT_FOUND, REFUSED, USAGE, Trouble, advised, code_of
from holdfast.cli.instants import instant
from holdfast.cli.options import output_option, reason_option, server_options, strict_option
from holdfast.cli.output import (
    TABLES,
    Column,
    View,
    draw,
    emit_list,
    note,
)
from holdfast.cli.selectors import (
    ENDED,
    UNFINISHED,
    find_jobs,
    find_named_tasks,
    find_tasks,
    names_several,
)
from holdfast.cli.servers import FromServer
from holdfast.cli.tables import jobs_table, tasks_table
from holdfast.wire.bodies import Reason, Reschedule, Retries
from holdfast.wire.http import Rejected

F = TypeVar("F", bound=Callable[..., Any])


class Order(Struct, frozen=True, kw_only=True):
    """How a person wants something done, where it may be done to many."""

    reason: str
    dry_run: bool
    yes: bool
    strict: bool
    server: str | None
    token_file: Path | None
    form: str


def orders(command: F) -> F:
    """The options of every such command, given to it as one `order`."""
    return reason_option(_ordered(command))


def orders_noted(command: F) -> F:
    """The same where `--reason` is something else: why it is done is called a note."""
    note_option = click.option("--note", "reason", default="", help="Why; it is recorded.")
    return note_option(_ordered(command))


def _ordered(command: F) -> F:

    @wraps(command)
    def ordered(**told: Any) -> Any:
        order = Order(**{name: told.pop(name) for name in Order.__struct_fields__})
        return command(order=order, **told)

    dry_run = click.option(
        "--dry-run", is_flag=True, help="Show what it would be done to; do nothing."
    )
    yes = click.option("-y", "--yes", is_flag=True, help="Do not ask, however many they are.")
    asked = strict_option(server_options(output_option(ordered)))
    return cast(F, dry_run(yes(asked)))


@click.command("cancel")
@click.argument("selectors", metavar="JOB...", nargs=-1, required=True)
@click.option("--prefix", is_flag=True, help="Take the beginning of an id for the whole.")
@orders
def cancel_job(order: Order, selectors: tuple[str, ...], prefix: bool) -> int:
    """Stop jobs: nothing more of them runs, and what runs is stopped.

    JOB is a whole id, `last`, `all` (those that have not ended) or numbers such as 1-10:2.
    """
    with asking(order.server, order.token_file, strict=order.strict) as asker:
        source = FromServer(asker)
        jobs = find_jobs(source, selectors, all_means=UNFINISHED)
        if not prefix:
            exact(selectors, jobs)
        if order.dry_run:
            left = [view for view in jobs if view["state"] in UNFINISHED]
            return would(order.form, "jobs", left, jobs_table(left, source.now()), "cancelled")
        if names_several(selectors):
            confirm("cancel", jobs, "job", yes=order.yes)
        body = Reason(reason=order.reason)
        return _each(
            order.form,
            "jobs",
            [view["id"] for view in jobs],
            lambda job_id: asker.post("jobs", job_id, "cancel", body=body),
        )


@click.command("retry")
@click.argument("selectors", metavar="JOB|JOB/3-7...", nargs=-1, required=True)
@set_option
@orders
def retry_job(order: Order, selectors: tuple[str, ...], changes: tuple[str, ...]) -> int:
    """Send tasks back with fresh budgets: those of a job that may come back, or the ones named."""
    edits = edits_of(changes)
    with asking(order.server, order.token_file, strict=order.strict) as asker:
        source = FromServer(asker)
        whole = [text for text in selectors if "/" not in text]
        wanted: dict[str, list[int]] = {view["id"]: [] for view in find_jobs(source, whole)}
        for text in selectors:
            if "/" in text:
                job, indices = find_tasks(source, text)
                # A job that is wanted as a whole is not wanted in parts.
                if job["id"] not in wanted or wanted[job["id"]]:
                    wanted.setdefault(job["id"], []).extend(indices)
        if order.dry_run:
            jobs = [source.job(job_id) for job_id in wanted]
            return would(order.form, "jobs", jobs, jobs_table(jobs, source.now()), "retried")
        if names_several(whole):
            confirm("retry", list(wanted), "job", yes=order.yes)

        def retry(job_id: str) -> View:
            body = Retries(indices=wanted[job_id], reason=order.reason, set=edits)
            return asker.post("jobs", job_id, "retry", body=body)

        return _each(order.form, "jobs", list(wanted), retry)


@click.command("cancel")
@click.argument("selectors", metavar="JOB/3-7...", nargs=-1, required=True)
@orders
def cancel_task(order: Order, selectors: tuple[str, ...]) -> int:
    """Stop tasks; the others of their job go on."""
    with asking(order.server, order.token_file, strict=order.strict) as asker:
        found = _tasks(FromServer(asker), selectors)
        if order.dry_run:
            left = [view for view in found if view["state"] not in ENDED]
            return would(order.form, "tasks", left, tasks_table(left), "cancelled")
        if len(found) > 1:
            confirm("cancel", found, "task", yes=order.yes)
        body = Reason(reason=order.reason)
        return _each(
            order.form,
            "tasks",
            [view["id"] for view in found],
            lambda task_id: _post(asker, task_id, "cancel", body),
        )


@click.command()
@click.argument("selectors", metavar="JOB/3-7...", nargs=-1, required=True)
@click.option("--delay", default="", metavar="DURATION", help="Not before so long from now.")
@click.option("--not-before", default="", metavar="TIME", help="Not before this time.")
@click.option("--now", is_flag=True, help="As soon as a worker is free.")
@server_options
@output_option
def reschedule(
    selectors: tuple[str, ...],
    delay: str,
    not_before: str,
    now: bool,
    server: str | None,
    token_file: Path | None,
    form: str,
) -> int:
    """Move when waiting tasks may begin: after a delay, at a time, or now."""
    if sum(map(bool, (delay, not_before, now))) != 1:
        raise click.UsageError("say when, and only once: --delay, --not-before or --now")
    body = Reschedule(delay=delay, not_before=instant(not_before, "--not-before"))
    with asking(server, token_file) as asker:
        found = _tasks(FromServer(asker), selectors)
        return _each(
            form,
            "tasks",
            [view["id"] for view in found],
            lambda task_id: _post(asker, task_id, "reschedule", body),
        )


def _post(asker: Asker, task_id: str, verb: str, body: Any) -> View:
    job_id, _, index = task_id.rpartition("/")
    return asker.post("tasks", job_id, index, verb, body=body)


def _tasks(source: FromServer, selectors: Sequence[str]) -> list[View]:
    """The tasks that are named, each once. A job alone must have only one."""
    found: dict[str, View] = {}
    for text in selectors:
        job, indices = find_named_tasks(source, text)
        views = source.tasks(job, indices, frozenset()).views
        found.update((view["id"], view) for view in views)
    return list(found.values())


def exact(selectors: Sequence[str], jobs: Sequence[View]) -> None:
    """What is stopped is stopped for good, so an id must have been written whole."""
    known = {view["id"] for view in jobs}
    for text in selectors:
        if text in known or text == "last" or names_several([text]):
            continue
        whole = next(name for name in known if name.startswith(text))
        raise Trouble(
            f"there is no job {text}, but there is {whole}: write it whole, or add --prefix.",
            NOT_FOUND,
        )


def would(form: str, plural: str, views: list[View], table: str, done: str) -> int:
    emit_list(form, plural, views, table if form in TABLES and views else "")
    note(f"nothing was done; {len(views)} {plural} would be {done}")
    return 0


def confirm(verb: str, found: Sequence[object], noun: str, *, yes: bool) -> None:
    """Ask a person before it is done to many; a program has to say --yes."""
    if yes or not found:
        return
    what = f"{verb} {len(found)} {noun}" + ("" if len(found) == 1 else "s")
    if sys.stdin is None or not sys.stdin.isatty():
        raise Trouble(f"this would {what}: add --yes if that is meant, --dry-run to look.", USAGE)
    if not click.confirm(f"{what.capitalize()}?", err=True):
        raise Trouble("nothing was done.", REFUSED)


def _each(form: str, plural: str, names: Sequence[str], ask: Callable[[str], View]) -> int:
    """Ask for each of them; one that is refused does not keep the others from it."""
    done: list[View] = []
    code = 0
    for name in names:
        try:
            done.append({"id": name, **ask(name)})
        except Rejected as no:
            if len(names) == 1:
                raise
            note(f"{name}: {advised(str(no), no.problem.code)}")
            code = code or code_of(no.problem.code)
    if not names:
        note(f"there are no such {plural}")
    for view in done:
        if 0 in (view.get("stopped"), view.get("retried")):
            note(f"nothing of {view['id']} was left to be done")
    emit_list(form, plural, done, _table(plural, done) if form in TABLES and done else "")
    return code


def _table(plural: str, views: Sequence[View]) -> str:
    counted = [name for name in ("stopped", "retried") if name in views[0]]
    columns = [Column(plural.upper().removesuffix("S"))]
    columns += [Column(name.upper(), right=True) for name in counted]
    return draw(columns, [[view["id"], *(view[name] for name in counted)] for view in views])
