"""`holdfast quarantine retry|purge` and `task force`: what operators decide about single tasks."""

import time
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from holdfast.cli.asking import Asker, asking
from holdfast.cli.errors import REFUSED, TIMED_OUT, Trouble
from holdfast.cli.options import output_option, server_options
from holdfast.cli.output import TABLES, View, counted, emit_list, emit_one, note
from holdfast.cli.quarantine import cases_table, filters, wanted_of
from holdfast.cli.selectors import ENDED, find_named_tasks
from holdfast.cli.servers import FromServer
from holdfast.cli.stopping import Order, confirm, orders_noted
from holdfast.cli.waiting import POLL_S, Deadline, OutOfTime
from holdfast.core.task import TaskState
from holdfast.wire.bodies import ChosenCases, Force
from holdfast.wire.quarantine import MARK, WantedCases

SAMPLE: Final = 10
"""So many of those that are chosen are shown before it is done."""

GOOD: Final = ("COMMITTED", "SUCCEEDED")
ALL: Final = "all"


class Done(msgspec.Struct):
    """How many tasks an order was carried out on, and some of them."""

    count: int = 0
    tasks: list[View] = []
    operations: list[str] = []


_named = click.argument("names", metavar="[JOB/INDEX...|fp:MARK|all]", nargs=-1)
_every = click.option("--all", "every", is_flag=True, help="Everything that is in quarantine.")


@click.command("retry")
@_named
@filters
@_every
@click.option("--canary", is_flag=True,
              help="Only one of each fingerprint, to see whether the rest would do.")  # fmt: skip
@click.option("--wait", "waits", is_flag=True, help="Wait for them; exit 1 where one fails again.")
@click.option("--timeout", metavar="DURATION", help="Wait no longer than this, exit 124.")
@orders_noted
def retry(
    order: Order,
    names: tuple[str, ...],
    every: bool,
    canary: bool,
    waits: bool,
    timeout: str | None,
    **chosen: Any,
) -> int:
    """Send tasks back from quarantine with fresh budgets; their attempts go on counting.

    Those that are named, or all that fit. --note says why, and is recorded. With --canary one of
    each fingerprint goes first.
    """
    deadline = Deadline(timeout)
    with asking(order.server, order.token_file, strict=order.strict) as asker:
        body = _chosen(asker, order, names, chosen, every=every, canary=canary)
        sample = _sample(asker, "retry", body)
        if order.dry_run:
            return _told_only(order.form, sample, "retried")
        if not canary:
            _ask(order, "retry", sample)
        done = _carried_out(asker, "retry", body)
        views = done.tasks if canary else sample["tasks"]
        emit_list(order.form, "tasks", views, _table(order.form, views))
        note(_how_many(done.count, sample, "sent back"))
        for name in done.operations:
            note(f"`holdfast operation undo {name}{asker.options}` takes back what has not begun")
        if canary and not waits:
            _say_how_to_go_on(asker, views)
        if not waits:
            return 0
        return _await(asker, views, deadline)


@click.command("purge")
@_named
@filters
@_every
@orders_noted
def purge(order: Order, names: tuple[str, ...], every: bool, **chosen: Any) -> int:
    """Give up tasks in quarantine: they never run again, and their jobs may leave memory.

    Chosen as for retry. --note is required and is recorded.
    """
    if not order.reason.strip() and not order.dry_run:
        raise click.UsageError("Say why they are given up: --note 'the input was wrong'.")
    with asking(order.server, order.token_file, strict=order.strict) as asker:
        body = _chosen(asker, order, names, chosen, every=every, canary=False)
        sample = _sample(asker, "purge", body)
        if order.dry_run:
            return _told_only(order.form, sample, "given up")
        _ask(order, "purge", sample)
        done = _carried_out(asker, "purge", body)
    emit_list(order.form, "tasks", sample["tasks"], _table(order.form, sample["tasks"]))
    note(_how_many(done.count, sample, "given up"))
    return 0


def _chosen(
    asker: Asker,
    order: Order,
    names: tuple[str, ...],
    chosen: dict[str, Any],
    *,
    every: bool,
    canary: bool,
) -> ChosenCases:
    source = FromServer(asker)
    only = names[0] if len(names) == 1 else ""
    if only.lower() == ALL:
        names, every = (), True
    elif only.startswith(MARK) and not chosen["fingerprint"]:
        names, chosen = (), {**chosen, "fingerprint": only}
    wanted = wanted_of(source, chosen)
    narrowed = wanted != WantedCases()
    if bool(names) == (narrowed or every) or (names and canary):
        raise click.UsageError(
            "Name tasks (12/3), or choose them: --reason, --job, --fingerprint, --older-than, "
            "--name or all."
        )
    ids = [
        f"{job['id']}/{index}"
        for name in names
        for job, indices in (find_named_tasks(source, name),)
        for index in indices
    ]
    return ChosenCases(
        ids=ids,
        reasons=sorted(wanted.reasons),
        job=wanted.job,
        fingerprint=wanted.fingerprint,
        older_than=f"{wanted.older_than_ms}ms" if wanted.older_than_ms else "",
        name=wanted.name,
        every=every and not narrowed,
        canary=canary,
        reason=order.reason,
    )


def _sample(asker: Asker, verb: str, body: ChosenCases) -> View:
    """What it would be done to: how many, and some of them."""
    look = msgspec.structs.replace(body, dry_run=True)
    return asker.post("quarantine", verb, body=look)


def _told_only(form: str, sample: View, done: str) -> int:
    views = sample["tasks"]
    emit_list(form, "tasks", views, _table(form, views))
    more = "at least " if sample["more"] else ""
    note(f"nothing was done; {more}{counted(sample['chosen'], 'task')} would be {done}")
    return 0


def _ask(order: Order, verb: str, sample: View) -> None:
    """Say what it is about before it is done to several."""
    if sample["chosen"] > 1 and not order.yes:
        for view in sample["tasks"][:SAMPLE]:
            note(f"{view['id']}  {view['reason']}  {view['error']}")
        confirm(verb, range(sample["chosen"]), "task", yes=order.yes)


def _carried_out(asker: Asker, verb: str, body: ChosenCases) -> Done:
    """As many requests as it takes; a canary is one."""
    done = Done()
    while True:
        told = asker.post("quarantine", verb, body=body)
        count = told["retried" if verb == "retry" else "purged"]
        done.count += count
        done.tasks += told["tasks"]
        if count and told["operation"]:
            done.operations.append(told["operation"])
        if not told["more"] or not count or body.canary:
            return done


def _how_many(count: int, sample: View, done: str) -> str:
    if not sample["chosen"]:
        return "there are no such tasks in quarantine; nothing was done"
    tasks = "1 task was" if count == 1 else f"{count:,} tasks were"
    return f"{tasks} {done}"


def _say_how_to_go_on(asker: Asker, views: list[View]) -> None:
    for view in views:
        mark = view["fingerprint"]
        note(
            f"{view['id']} goes first for {mark}. When it has succeeded: "
            f"`holdfast quarantine retry --fingerprint {mark}{asker.options}`"
        )


def _await(asker: Asker, views: list[View], deadline: Deadline) -> int:
    """Each of them until it has ended; 1 where one did not succeed."""
    code = 0
    for view in views:
        try:
            task = _ended(asker, view, deadline)
        except OutOfTime:
            raise Trouble(
                f"the time was up while task {view['id']} was waited for. "
                f"`holdfast task show {view['id']}{asker.options}` says how it stands.",
                TIMED_OUT,
            ) from None
        if task["state"] in GOOD:
            rest = f"holdfast quarantine retry --fingerprint {view['fingerprint']}{asker.options}"
            note(f"{view['id']} has succeeded; `{rest}` sends back those that are alike")
        else:
            note(f"{view['id']} is {task['state']} again: {task['error'] or task['reason']}")
            code = REFUSED
    return code


def _ended(asker: Asker, view: View, deadline: Deadline) -> View:
    while True:
        task = asker.get("tasks", view["job_id"], view["index"])
        if task["state"] in ENDED or task["state"] in GOOD:
            return task
        time.sleep(deadline.left(POLL_S))


def _table(form: str, views: list[View]) -> str:
    return cases_table(views) if form in TABLES and views else ""


@click.command("force")
@click.argument("selector", metavar="JOB/INDEX")
@click.option("--to", "target", required=True, metavar="STATE",
              type=click.Choice([state.name for state in TaskState], case_sensitive=False),
              help="WAITING, QUARANTINED, KILLED or UNSCHEDULABLE.")  # fmt: skip
@click.option("--reason", required=True, help="Why; it is recorded.")
@server_options
@output_option
def force(
    selector: str,
    target: str,
    reason: str,
    server: str | None,
    token_file: Path | None,
    form: str,
) -> int:
    """Move one task by hand, as far as the invariants allow. It is recorded as what it is.

    Whoever runs the task loses its lease; nothing is charged. No task can be forced to be running
    or done, and none that has committed can be moved at all.
    """
    with asking(server, token_file) as asker:
        job, indices = find_named_tasks(FromServer(asker), selector)
        if len(indices) != 1:
            raise click.UsageError("Force one task at a time: JOB/INDEX, such as 12/3.")
        path = (job["id"], indices[0])
        told = asker.post("tasks", *path, "force", body=Force(to=target, reason=reason))
    view = {"id": f"{path[0]}/{path[1]}", **told}
    if not told["moved"]:
        note(f"task {view['id']} is {told['to']} already; nothing was done")
    text = f"task {view['id']}: {told['from']} -> {told['to']}\n" if told["moved"] else ""
    emit_one(form, view, text)
    return 0
