"""`holdfast limit`: how much a namespace, a user or a key may have running, and start."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem
from msgspec import UNSET

from holdfast.cli.asking import asking
from holdfast.cli.errors import NOT_FOUND, Trouble
from holdfast.cli.options import output_option, server_options
from holdfast.cli.output import (
    TABLES,
    Column,
    View,
    clean,
    draw,
    draw_fields,
    emit_list,
    emit_one,
    note,
)
from holdfast.cli.reading import Look, reads
from holdfast.cli.spans import size
from holdfast.cli.wishes import amount, named_values
from holdfast.core.decide.wishes import WEIGHT_MAX
from holdfast.wire.amounts import size_bytes
from holdfast.wire.bodies import NewLimit
from holdfast.wire.limits import changes_of
from holdfast.wire.rates import rate_of

F = TypeVar("F", bound=Callable[..., Any])

NONE: Final = "none"
SCOPES: Final = ("namespace", "user", "key")


def _checked(
    context: click.Context, option: click.Parameter, value: str | tuple[str, ...]
) -> str | tuple[str, ...]:
    """`namespace/NAME`, `user/NAME` or `key/NAME`, one or many."""
    for target in (value,) if isinstance(value, str) else value:
        scope, _, name = target.partition("/")
        if scope not in SCOPES or not name:
            told = f"{target!r} is not namespace/NAME, user/NAME or key/NAME"
            raise click.BadParameter(told, context, option)
    return value


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(f"{scope}/") for scope in SCOPES if scope.startswith(incomplete)]


_target = click.argument(
    "target", metavar="SCOPE/NAME", callback=_checked, shell_complete=_complete
)


@click.command("list")
@reads
def list_limits(look: Look, form: str) -> None:
    """List the limits that are set, with how much of each is in use."""
    with look.source() as source:
        views = source.limits()
        if not views and form in TABLES:
            note(
                f"no limits {source.place}; "
                "`holdfast limit set key/NAME --running 1` sets one"
            )
            return
    emit_list(form, "limits", views, limits_table(views) if form in TABLES else "")


@click.command("show")
@_target
@reads
def show_limit(look: Look, target: str, form: str) -> None:
    """Show one limit."""
    with look.source() as source:
        found = [view for view in source.limits() if view["id"] == target]
        if not found:
            raise Trouble(
                f"no limit is set for {target} {source.place}. "
                f"`holdfast limit list{source.options}` lists those there are.",
                NOT_FOUND,
            )
    emit_one(form, found[0], limit_text(found[0]))


class _Bound(click.ParamType[Any]):
    """A bound of some kind, or `none`; left out, it is not named at all."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        if value is UNSET or value is None or value == NONE:
            return None if value == NONE else UNSET
        try:
            return self._read(value)
        except ValueError as error:
            why = str(error) if isinstance(error, _Mistaken) else f"{value!r} is not {self.name}"
            self.fail(f"{why}; none takes the bound away", param, ctx)


class _Mistaken(ValueError):
    """What is wrong with a bound, in words."""


def _above_nothing(read: Callable[[str], float]) -> Callable[[str], float]:
    def checked(text: str) -> float:
        told = read(text)
        if told <= 0:
            raise _Mistaken(f"{text} would let nothing run: pause a queue instead")
        return told

    return checked


def _weight(text: str) -> int:
    told = int(text)
    if not 1 <= told <= WEIGHT_MAX:
        raise _Mistaken(f"a weight lies between 1 and {WEIGHT_MAX}; {told} does not")
    return told


def _rate(text: str) -> str:
    try:
        rate_of(text)
    except ValueError as error:
        raise _Mistaken(str(error)) from None
    return text


def _size(text: str) -> str:
    _above_nothing(lambda told: size_bytes(told, "memory"))(text)
    return text


def _bound(option: str, name: str, read: Callable[[str], Any], told: str) -> Callable[[F], F]:
    return click.option(option, type=_Bound(name, read), default=UNSET, metavar=name, help=told)


@click.command("set")
@_target
@_bound("--running", "N", _above_nothing(int), "How many tasks may run at once.")
@_bound("--cpus", "N", _above_nothing(float), "How many processors its tasks may take together.")
@_bound("--memory", "SIZE", _size, "How much memory, such as 64Gi.")
@_bound("--gpus", "N", _above_nothing(int), "How many GPUs.")
@click.option("--resource", "resources", multiple=True, metavar="NAME=N",
              help="How much of a named resource; repeat for more.")
@_bound("--rate", "N/DURATION", _rate, "How many may start in a while, such as 10/1m.")
@_bound("--weight", "N", _weight, "A namespace's part in fair shares, 1 to 100.")
@server_options
@output_option  # fmt: skip
def set_limit(
    target: str, server: str | None, token_file: Path | None, form: str, **asked: Any
) -> None:
    """Bound a namespace, a user or a key.

    What is not named stays as it was; `none` instead of a number takes a bound away.
    """
    body = NewLimit(**{**asked, "resources": named_amounts(asked["resources"])})
    if body == NewLimit():
        raise click.UsageError(
            "say how much: --running, --cpus, --memory, --gpus, --resource, --rate or --weight"
        )
    try:
        changes_of(body)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    scope, _, name = target.partition("/")
    with asking(server, token_file) as asker:
        view = asker.patch("limits", scope, name, body=body)
        note(
            f"{clean(target)} is limited; "
            f"`holdfast limit clear {clean(target)}{asker.options}` undoes it"
        )
    emit_one(form, view, limit_text(view))


def named_amounts(texts: tuple[str, ...]) -> dict[str, float | None]:
    """`NAME=N` or `NAME=none`, each name once."""

    def read(name: str, text: str) -> float | None:
        return None if text == NONE else amount(name, text)

    return named_values("--resource", texts, read)


@click.command()
@click.argument("targets", metavar="SCOPE/NAME...", nargs=-1, required=True,
                callback=_checked, shell_complete=_complete)  # fmt: skip
@server_options
def clear(targets: tuple[str, ...], server: str | None, token_file: Path | None) -> None:
    """Bound namespaces, users or keys no more."""
    with asking(server, token_file) as asker:
        for target in targets:
            scope, _, name = target.partition("/")
            if asker.delete("limits", scope, name)["cleared"]:
                note(f"{clean(target)} is limited no more")
            else:
                note(f"no limit was set for {clean(target)}")


def limits_table(views: list[View]) -> str:
    columns = [
        Column("LIMIT", elastic=True),
        Column("IN USE", right=True),
        Column("RUNNING", right=True),
        Column("RATE", right=True),
        Column("WEIGHT", right=True),
        Column("TAKEN"),
    ]
    names = ("id", "in_use", "running", "rate", "weight")
    rows = [[*(view[name] for name in names), ", ".join(_taken(view)) or None] for view in views]
    return draw(columns, rows)


def _taken(view: View) -> list[str]:
    """`2 of 4 cpus`, for every resource that it bounds."""
    bounds = {
        "cpus": view["cpus"], "memory": view["memory_bytes"], "gpus": view["gpus"],
        **view["resources"],
    }  # fmt: skip
    told = []
    for name, most in bounds.items():
        if most is not None:
            counts = size if name == "memory" else "{:g}".format
            told.append(f"{counts(view['taken'].get(name, 0))} of {counts(most)} {name}")
    return told


def limit_text(view: View) -> str:
    return draw_fields(
        [
            ("limit", view["id"]),
            ("running", view["running"]),
            ("rate", view["rate"]),
            ("weight", view["weight"]),
            ("in use", view["in_use"]),
            ("taken", ", ".join(_taken(view))),
        ]
    )
