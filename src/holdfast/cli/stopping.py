"""Stopping jobs and tasks, sending them back, moving them: what people decide about work."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from holdfast.cli.asking import Asker, asking
from holdfast.cli.edits import edits_of, set_option
from holdfast.cli.errors import NOT_FOUND, REFUSED, USAGE, Trouble, advised, code_of
from holdfast.cli.instants import instant
from holdfast.cli.options import output_option, server_options
from holdfast.cli.output import (
    TABLES,
    Column,
    View,
    draw,
    emit_list,
    note,
)
from holdfast.cli.selectors import UNFINISHED, find_jobs, find_one_task, find_tasks, names_several
from holdfast.cli.servers import FromServer
from holdfast.cli.tables import jobs_table, tasks_table
from holdfast.wire.bodies import Reason, Reschedule, Retries
from holdfast.wire.http import Rejected

F = TypeVar("F", bound=Callable[..., Any])

ENDED: Final = frozenset({"SUCCEEDED", "QUARANTINED", "KILLED", "UNSCHEDULABLE"})
MANY: Final = 1

_reason = click.option("--reason", default="", help="Why; it is recorded.")
_dry_run = click.option(
    "--dry-run", is_flag=True, help="Show what it would be done to; do nothing."
)
_yes = click.option("-y", "--yes", is_flag=True, help="Do not ask, however many they are.")


@click.command("cancel")
@click.argument("selectors", metavar="JOB...", nargs=-1, required=True)
@_reason
@click.option("--prefix", is_flag=True, help="Take the beginning of an id for the whole.")
@_dry_run
@_yes
@server_options
@output_option
def cancel_job(
    selectors: tuple[str, ...],
    reason: str,
    prefix: bool,
    dry_run: bool,
    yes: bool,
    server: str | None,
    token_file: Path | None,
    form: str,
) -> int:
    """Stop jobs: nothing more of them runs, and what runs is stopped.

    JOB is a whole id, `last`, `all` (those that have not ended) or numbers such as 1-10:2.
    """
    with asking(server, token_file) as asker:
        source = FromServer(asker)
        jobs = find_jobs(source, selectors, all_means=UNFINISHED)
        if not prefix:
            exact(selectors, jobs)
        if dry_run:
            left = [view for view in jobs if view["state"] in UNFINISHED]
            return _would(form, "jobs", left, jobs_table(left, source.now()), "cancelled")
        if names_several(selectors):
            _confirm(f"cancel {_counted(jobs, 'job')}", jobs, yes=yes)
        return _each(
            form,
            "jobs",
            [view["id"] for view in jobs],
            lambda job_id: asker.post("jobs", job_id, "cancel", body=Reason(reason=reason)),
        )


@click.command("retry")
@click.argument("selectors", metavar="JOB|JOB/3-7...", nargs=-1, required=True)
@set_option
@_reason
@_dry_run
@_yes
@server_options
@output_option
def retry_job(
    selectors: tuple[str, ...],
    changes: tuple[str, ...],
    reason: str,
    dry_run: bool,
    yes: bool,
    server: str | None,
    token_file: Path | None,
    form: str,
) -> int:
    """Send tasks back with fresh budgets: those of a job that may come back, or the ones named."""
    edits = edits_of(changes)
    with asking(server, token_file) as asker:
        source = FromServer(asker)
        wanted: dict[str, list[int]] = {}
        plain = [text for text in selectors if "/" not in text]
        for view in find_jobs(source, plain):
            wanted[view["id"]] = []
        for text in selectors:
            if "/" in text:
                job, indices = find_tasks(source, text)
                if job["id"] not in wanted or wanted[job["id"]]:
                    wanted.setdefault(job["id"], []).extend(indices)
        jobs = [source.job(job_id) for job_id in wanted] if dry_run else []
        if dry_run:
            return _would(form, "jobs", jobs, jobs_table(jobs, source.now()), "retried")
        if names_several(plain):
            _confirm(f"retry {len(wanted)} jobs", list(wanted), yes=yes)

        def retry(job_id: str) -> View:
            body = Retries(indices=wanted[job_id], reason=reason, set=edits)
            return asker.post("jobs", job_id, "retry", body=body)

        return _each(form, "jobs", list(wanted), retry)


@click.command("cancel")
@click.argument("selectors", metavar="JOB/3-7...", nargs=-1, required=True)
@_reason
@_dry_run
@_yes
@server_options
@output_option
def cancel_task(
    selectors: tuple[str, ...],
    reason: str,
    dry_run: bool,
    yes: bool,
    server: str | None,
    token_file: Path | None,
    form: str,
) -> int:
    """Stop tasks; the others of their job go on."""
    with asking(server, token_file) as asker:
        found = _tasks(FromServer(asker), selectors)
        if dry_run:
            open_ones = [view for view in found if view["state"] not in ENDED]
            return _would(form, "tasks", open_ones, tasks_table(open_ones), "cancelled")
        if len(found) > MANY:
            _confirm(f"cancel {len(found)} tasks", found, yes=yes)
        return _each(
            form,
            "tasks",
            [view["id"] for view in found],
            lambda task_id: _post(asker, task_id, "cancel", Reason(reason=reason)),
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
        if "/" in text:
            job, indices = find_tasks(source, text)
        else:
            job, index = find_one_task(source, text)
            indices = range(index, index + 1)
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


def _would(form: str, plural: str, views: list[View], table: str, done: str) -> int:
    emit_list(form, plural, views, table if form in TABLES and views else "")
    note(f"nothing was done; {len(views)} {plural} would be {done}")
    return 0


def _counted(views: Sequence[object], what: str) -> str:
    return f"{len(views)} {what}" + ("" if len(views) == 1 else "s")


def _confirm(what: str, views: Sequence[object], *, yes: bool) -> None:
    """Ask a person before it is done to many; a program has to say --yes."""
    if yes or not views:
        return
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
