"""Where a job may run, beside which and after what, as options of `submit` and `run`."""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import click

from holdfast.cli.asking import Asker
from holdfast.core.placing import constraint_of
from holdfast.wire.bodies import Submit
from holdfast.wire.wishes import LIKED, after_of, afters_told, milli
from holdfast.worker.seat import JOB_VARIABLE, current_job

F = TypeVar("F", bound=Callable[..., Any])

CURRENT: Final = "current"

_OPTIONS: Final = (
    click.option("--resource", "resources", multiple=True, metavar="NAME=N",
                 help="Some of a named resource that workers offer; repeat for more."),
    click.option("--require", multiple=True, metavar="'ATTR OP VALUE'",
                 help="What a worker must be: 'zone == eu', 'cores >= 8', 'zone in eu,us', "
                 "'gpu exists'; repeat for more."),
    click.option("--prefer", multiple=True, metavar="'[WEIGHT] ATTR OP VALUE'",
                 help="What it had better be; the higher the weight (1 to 100), the rather."),
    click.option("--spread", type=click.Choice(["pack", "spread"]),
                 help="Fill workers one after the other, or use as many as there are."),
    click.option("--gang", is_flag=True, help="All tasks start together, or none does."),
    click.option("--gang-by", default="", metavar="ATTR",
                 help="All of a gang on workers that agree in this attribute."),
    click.option("--concurrency", multiple=True, metavar="KEY[=N]",
                 help="At most N tasks of this key at once, whatever their job; without N, as many "
                 "as `holdfast limit` allows."),
    click.option("--preempt", is_flag=True, help="Room may be made by ending what is less urgent."),
)  # fmt: skip

_ONCE: Final = (
    click.option("--after", multiple=True, metavar="JOB[/TASK][:success|finish|failure]",
                 help="Not before that has ended so; repeat for more."),
    click.option("--on-failed-parent", type=click.Choice(["fail", "wait"]), default="fail",
                 help="What becomes of it where --after cannot come true. [default: fail]"),
    click.option("--parent", default="", metavar="JOB",
                 help="It ends with this job; `current` is the job that this command runs in."),
    click.option("--detached", is_flag=True, help="It does not end with its parent."),
    click.option("--unique-for", default="", metavar="DURATION",
                 help="How long the key finds this job. [default: as long as it is kept]"),
    click.option("--existing", type=click.Choice(["keep", "replace", "refuse"]), default="keep",
                 help="What to do where the key has a job already. [default: keep]"),
    click.option("--must-fit", is_flag=True,
                 help="Refuse it where no worker that is there could ever run it."),
)  # fmt: skip


def placed(command: F) -> F:
    """Where it may run and beside which, among what the command is given as `asked`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def tied(command: F) -> F:
    """After what and instead of what: for a job that comes once."""
    for option in reversed(_ONCE):
        command = option(command)
    return command


def place(body: Submit, asked: dict[str, Any]) -> None:
    """Have the body ask for it. Mistakes are told by the option they were made in; so also
    below."""
    body.resources = named_values("--resource", asked["resources"], amount)
    body.keys = named_values("--concurrency", asked["concurrency"], _most)
    body.constraints = [
        *_read("--require", asked["require"], _required),
        *_read("--prefer", asked["prefer"], _preferred),
    ]
    body.spread = asked["spread"] or ""
    body.gang, body.gang_by, body.preempt = asked["gang"], asked["gang_by"], asked["preempt"]


def tie(body: Submit, asked: dict[str, Any]) -> None:
    body.after = afters_told(_read("--after", asked["after"], after_of))
    body.on_failed_parent = asked["on_failed_parent"]
    body.parent, body.detached = _parent(asked["parent"]), asked["detached"]
    body.unique_for, body.existing = asked["unique_for"], asked["existing"]
    body.must_fit = asked["must_fit"]


def resolve(body: Submit, asker: Asker) -> None:
    """Name jobs by their ids that were named otherwise (`last`, the beginning of an id); one that
    is not there is told with how to find it."""
    from holdfast.cli.servers import FromServer

    source = FromServer(asker)
    if body.parent:
        body.parent = str(source.job(body.parent)["id"])
    for after in body.after:
        after.job = str(source.job(after.job)["id"])


def _read(option: str, texts: Iterable[str], read: Callable[[str], Any]) -> list[Any]:
    try:
        return [read(text) for text in texts]
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def _required(text: str) -> str:
    if constraint_of(text).weight:
        raise ValueError(f"{text!r}: what is required has no weight; --prefer has")
    return text


def _preferred(text: str) -> str:
    weight = constraint_of(text, otherwise=LIKED).weight
    if not weight:
        raise ValueError(f"{text!r}: a preference weighs 1 to 100")
    return text if constraint_of(text).weight else f"{weight} {text}"


def named_values(
    option: str, texts: Iterable[str], read: Callable[[str, str], Any]
) -> dict[str, Any]:
    """`NAME=VALUE`, each name once."""
    found: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name in found:
            raise click.BadParameter(f"{name!r} is named twice", param_hint=option)
        try:
            found[name] = read(name, value if "=" in text else "")
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint=option) from None
    return found


def amount(name: str, text: str) -> float:
    """So much of a named resource."""
    try:
        told = float(text)
    except ValueError:
        raise ValueError(f"{name}={text} is not NAME=N, such as licence=1") from None
    milli(told, name)
    return told


def _most(name: str, text: str) -> int:
    if text and not (text.isascii() and text.isdigit() and int(text)):
        raise ValueError(
            f"{name}={text} is not KEY=N, such as customer-42=1; {name} alone is bounded by "
            f"`holdfast limit set key/{name}`"
        )
    return int(text or "0")


def _parent(text: str) -> str:
    if text != CURRENT:
        return text
    job_id = current_job()
    if not job_id:
        told = f"`current` is for what runs inside a task; ${JOB_VARIABLE} is not set here"
        raise click.BadParameter(told, param_hint="--parent")
    return job_id
