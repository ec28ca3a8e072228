"""Which jobs or tasks of many a command means: names, ranges, and what narrows them."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final, TypeVar, cast

import click

from holdfast.cli.pairs import pairs_of
from holdfast.cli.selectors import names_several
from holdfast.wire.operations import Selection

F = TypeVar("F", bound=Callable[..., Any])

STATE: Final = "state"


def chooses(command: F) -> F:
    """The options that narrow a choice, given to the command as one `selection` with the names."""

    @wraps(command)
    def chosen(selectors: tuple[str, ...], **told: Any) -> Any:
        fields = pairs_of(told.pop("fields"), "--field")
        odd = fields.keys() - {STATE}
        if odd:
            raise click.BadParameter(f"there is no {min(odd)!r}", param_hint="--field")
        listed = ",".join([*told.pop("states"), fields.get(STATE, "")])
        selection = Selection(
            names=list(dict.fromkeys(selectors)),
            states=[name.strip().upper() for name in listed.split(",") if name.strip()],
            name=told.pop("name") or "",
            namespace=told.pop("namespace") or "",
            queue=told.pop("queue") or "",
            user=told.pop("user") or "",
            labels=pairs_of(told.pop("labels"), "--label"),
            older_than=told.pop("older_than") or "",
        )
        if not selection.names and not is_narrowed(selection):
            raise click.UsageError("Say which: ids, `all`, or --name, --state, --label and so on.")
        return command(selection=selection, **told)

    for option in (
        click.option("--older-than", metavar="DURATION", help="Only what was submitted before."),
        click.option("--user", help="Only what this user submitted."),
        click.option("--queue", help="Only of this queue."),
        click.option("--namespace", help="Only of this namespace."),
        click.option("-l", "--label", "--selector", "labels", multiple=True, metavar="KEY=VALUE",
                     help="Only of jobs with this label; repeat for more."),
        click.option("--name", help="Only of jobs of this name; * and ? stand for anything."),
        click.option("--field", "fields", multiple=True, metavar="state=STATE",
                     help="The same as --state."),
        click.option("--state", "states", multiple=True,
                     help="Only in this state; several with commas."),
    ):  # fmt: skip
        chosen = option(chosen)
    return cast(F, chosen)


def is_narrowed(selection: Selection) -> bool:
    return any(
        (
            selection.states, selection.name, selection.namespace, selection.queue,
            selection.user, selection.labels, selection.older_than,
        )
    )  # fmt: skip


def is_one(selection: Selection) -> bool:
    """Whether one job or one task is named, and nothing else is asked for."""
    names: Sequence[str] = selection.names
    if is_narrowed(selection) or len(names) != 1 or names_several(names):
        return False
    span = names[0].rpartition("/")[2] if "/" in names[0] else ""
    return not span or span.isdigit()
