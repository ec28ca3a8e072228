"""`holdfast submit` and `holdfast run`: commands as jobs."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from holdfast.cli.asking import asking
from holdfast.cli.bundles import brought, digest_of
from holdfast.cli.config import load_config
from holdfast.cli.instants import instant
from holdfast.cli.options import output_option, server_options, strict_option
from holdfast.cli.output import FOR_PROGRAMS, View, draw_fields, emit, emit_one, note
from holdfast.cli.pairs import pairs_of
from holdfast.cli.wishes import place, placed, resolve, tie, tied
from holdfast.core.decide.wishes import spec_problem
from holdfast.wire.amounts import duration_ms
from holdfast.wire.bodies import Command, Retry, Submit
from holdfast.wire.http import Unreachable
from holdfast.wire.specs import spec_of
from holdfast.wire.wishes import ties_of

F = TypeVar("F", bound=Callable[..., Any])

# What follows the program belongs to the program, with or without `--` before it.
ITS_OWN: Final = {"allow_interspersed_args": False}

_OPTIONS: Final = (
    click.option("--name", default="", help="What to call it. [default: the program's name]"),
    click.option("--cpus", type=click.FloatRange(min=0), default=1.0, show_default=True,
                 help="Processors that a task needs."),
    click.option("--memory", default="", metavar="SIZE", help="Memory it needs, such as 512Mi."),
    click.option("--gpus", type=click.IntRange(min=0), default=0, help="GPUs that it needs."),
    click.option("--retries", type=click.IntRange(min=0), default=0, show_default=True,
                 help="How often a task that failed is tried again."),
    click.option("--max-losses", type=click.IntRange(min=0), default=10, show_default=True,
                 help="How often a task may lose its worker."),
    click.option("--retry-delay", default="1s", metavar="DURATION", show_default=True,
                 help="How long a task that failed waits, the first time."),
    click.option("--backoff", default="exponential", show_default=True,
                 type=click.Choice(["none", "fixed", "linear", "exponential"]),
                 help="How that grows with every failure."),
    click.option("--retry-budget", default="", metavar="N/DURATION",
                 help="At most so many retries after failures in a while, such as 100/1m; the "
                 "others wait."),
    click.option("--circuit", default="", metavar="N/DURATION",
                 help="After N failures in a row the program is given out no more for so long, "
                 "then one at a time: 5/1m."),
    click.option("--timeout", default="", metavar="DURATION", help="How long an attempt may take."),
    click.option("--stall-timeout", default="", metavar="DURATION",
                 help="How long it may print nothing before it counts as stalled."),
    click.option("--job-timeout", default="", metavar="DURATION",
                 help="How long the job may take; what is left of it is then stopped."),
    click.option("--schedule-timeout", default="", metavar="DURATION",
                 help="How long it may wait for a worker; then it ends UNSCHEDULABLE, with every "
                 "reason why none took it."),
    click.option("--max-failed-tasks", type=click.IntRange(min=0), metavar="N",
                 help="When more have failed, the rest is stopped. [default: it goes on]"),
    click.option("--priority", type=int, default=0, help="Higher comes first."),
    click.option("--queue", default="default", show_default=True, help="The queue it waits in."),
    click.option("--namespace", help="[default: $HOLDFAST_NAMESPACE, else default]"),
    click.option("-l", "--label", "labels", multiple=True, metavar="KEY=VALUE",
                 help="A label; repeat for more."),
    click.option("--env", multiple=True, metavar="KEY[=VALUE]",
                 help="A variable for the command; without a value, that of yours. A value "
                 "secret:NAME is looked up by the worker and stored nowhere."),
    click.option("--cwd", default="", metavar="DIR",
                 help="Where to run: absolute, or inside the folder that the task is given."),
    click.option("--bundle", metavar="DIR",
                 help="Bring this folder along: the command runs inside a copy that it cannot "
                 "change. What .holdfastignore names is left out."),
    click.option("--on-disconnect", type=click.Choice(["stop"]),
                 help="stop: it ends when its worker loses the server, so that two never run."),
)  # fmt: skip

_ONCE: Final = (
    click.option("--key", default="", help="Submitted again under this key, it is the same job."),
    click.option("--delay", default="", metavar="DURATION", help="Not before so long from now."),
    click.option("--not-before", default="", metavar="TIME", help="Not before this time."),
    click.option("--deadline", default="", metavar="TIME|DURATION",
                 help="Whatever has not ended by then is stopped."),
)  # fmt: skip


def describes(command: F) -> F:
    """The options that say what a job is, given to the command as one `asked`."""
    command = placed(command)
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _describes_once(command: F) -> F:
    """The same, with those that only make sense for a job that comes once."""
    for option in reversed(_ONCE):
        command = option(command)
    return describes(tied(command))


@click.command(context_settings=ITS_OWN)
@click.option("--array", type=click.IntRange(min=1), metavar="N",
              help="So many tasks; each finds its number in $HOLDFAST_TASK_INDEX.")  # fmt: skip
@_describes_once
@click.option("--max-parallel", type=click.IntRange(min=0), default=0,
              help="How many tasks may run at once.")  # fmt: skip
@click.option("--dry-run", is_flag=True,
              help="Show what would be asked, and whether it would start; submit nothing.",
              )  # fmt: skip
@click.option("--wait", is_flag=True, help="Wait for its end, and exit as `job wait` does.")
@strict_option
@server_options
@output_option
@click.argument("command", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def submit(
    command: tuple[str, ...],
    array: int | None,
    max_parallel: int,
    dry_run: bool,
    wait: bool,
    server: str | None,
    token_file: Path | None,
    strict: bool,
    form: str,
    **asked: Any,
) -> int:
    """Submit a command as a job and print the job's id.

    The command is a program and its arguments, never a line for a shell: write
    `-- sh -c '...'` where a shell is meant.
    """
    body = body_of(command, asked)
    tie(body, asked)
    body.count, body.max_parallel = array, max_parallel
    check(body)
    if dry_run:
        if asked["bundle"]:
            body.bundle = digest_of(asked["bundle"])
        _preview(body, form, *_foreseen(server, token_file, body))
        return 0
    with asking(server, token_file, strict=strict) as asker:
        if asked["bundle"]:
            body.bundle = brought(asker, asked["bundle"])
        resolve(body, asker)
        view = asker.post("jobs", body=body)
        _tell(view, form)
        if not wait:
            return 0
        from holdfast.cli.waiting import outcome_of, until_ended

        with asker.patient() as patient:
            return outcome_of([until_ended(patient, view, None)])


@click.command(context_settings=ITS_OWN)
@_describes_once
@strict_option
@server_options
@click.argument("command", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    command: tuple[str, ...],
    server: str | None,
    token_file: Path | None,
    strict: bool,
    **asked: Any,
) -> int:
    """Run a command on a worker, wait for it, and end with its exit code.

    Ctrl-C cancels it.
    """
    from holdfast.cli.running import follow

    body = body_of(command, asked)
    tie(body, asked)
    check(body)
    with asking(server, token_file, strict=strict) as asker:
        if asked["bundle"]:
            body.bundle = brought(asker, asked["bundle"])
        resolve(body, asker)
        return follow(asker, asker.post("jobs", body=body))


def body_of(command: tuple[str, ...], asked: dict[str, Any]) -> Submit:
    """The job that a command line asks for."""
    namespace = load_config().get("client.namespace", asked["namespace"])
    body = Submit(
        kind="command",
        name=asked["name"],
        command=Command(argv=list(command), env=_environment(asked["env"]), cwd=asked["cwd"]),
        cpus=asked["cpus"],
        memory=asked["memory"],
        gpus=asked["gpus"],
        retries=asked["retries"],
        max_losses=asked["max_losses"],
        retry=Retry(backoff=asked["backoff"], delay=asked["retry_delay"]),
        timeout=asked["timeout"],
        stall_timeout=asked["stall_timeout"],
        job_timeout=asked["job_timeout"],
        schedule_timeout=asked["schedule_timeout"],
        max_failed_tasks=asked["max_failed_tasks"],
        retry_budget=asked["retry_budget"],
        circuit=asked["circuit"],
        priority=asked["priority"],
        queue=asked["queue"],
        namespace=namespace,
        labels=pairs_of(asked["labels"], "--label"),
        key=asked.get("key", ""),
        delay=asked.get("delay", ""),
        not_before=instant(asked.get("not_before", ""), "--not-before"),
        deadline=instant(asked.get("deadline", ""), "--deadline"),
        on_disconnect=asked["on_disconnect"] or "",
    )
    place(body, asked)
    return body


def _environment(texts: tuple[str, ...]) -> dict[str, str]:
    """`KEY=VALUE`, or `KEY` for the value it has here."""
    told = []
    for text in texts:
        if "=" not in text:
            if text not in os.environ:
                raise click.BadParameter(f"{text} is not set here", param_hint="--env")
            text = f"{text}={os.environ[text]}"
        told.append(text)
    return pairs_of(told, "--env")


def check(body: Submit) -> None:
    """Mistakes are told where they were made, before anything is sent."""
    try:
        spec = spec_of(body)
        duration_ms(body.delay or None, "delay")
        problem = spec_problem(spec)
        ties_of(body)
    except (ValueError, OverflowError) as error:
        raise click.UsageError(str(error)) from None
    if problem:
        raise click.UsageError(problem)


def _foreseen(
    server: str | None, token_file: Path | None, body: Submit
) -> tuple[View | None, str]:
    """What a server says would become of it, and what leads to that server; nothing where none
    answers: what would be asked can be shown all the same."""
    try:
        with asking(server, token_file) as asker:
            resolve(body, asker)
            told = asker.post("jobs", body=body, dry_run="true")
            return {name: value for name, value in told.items() if name != "schema"}, asker.options
    except Unreachable:
        return None, ""


def _preview(body: Submit, form: str, told: View | None, options: str) -> None:
    view: View = msgspec.to_builtins(body)
    view["kind"] = body.kind
    if form in FOR_PROGRAMS:
        view["foreseen"] = told
        FOR_PROGRAMS[form](view)
        return
    from holdfast.cli.explaining import foreseen_text

    command = body.command or Command(argv=[])
    fields = [("command", msgspec.json.encode(command.argv).decode())]
    fields += [(name.replace("_", " "), value) for name, value in view.items() if name != "command"]
    fields += [("env", ", ".join(command.env)), ("cwd", command.cwd)]
    emit(draw_fields(fields) + (foreseen_text(told, options) if told is not None else ""))
    if told is None:
        note("no server answered: nobody can say whether it would start")
    note("nothing was submitted")


def _tell(view: View, form: str) -> None:
    emit_one(form, {"id": view["id"]}, f"{view['id']}\n")
