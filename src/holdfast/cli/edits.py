"""`--set NAME=VALUE`: other terms for a job that is sent back."""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import click
import msgspec
from click.shell_completion import CompletionItem

from holdfast.wire.bodies import Edits

F = TypeVar("F", bound=Callable[..., Any])

NAMES: Final = Edits.__struct_fields__
OPTION: Final = "--set"


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(f"{name}=") for name in NAMES if name.startswith(incomplete)]


def set_option(command: F) -> F:
    return click.option(
        OPTION, "changes", multiple=True, metavar="NAME=VALUE", shell_complete=_complete,
        help="Another term for it, such as retries=5 or memory=4Gi; lists and tables are JSON. "
        f"There are {', '.join(NAMES)}.",
    )(command)  # fmt: skip


def edits_of(texts: Iterable[str]) -> Edits | None:
    """The terms that these name; None where they name none."""
    told: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in NAMES:
            known = ", ".join(NAMES)
            raise _wrong(f"{text!r} is not NAME=VALUE" if not equals else f"no {name!r}: {known}")
        if name in told:
            raise _wrong(f"{name!r} is named twice")
        told[name] = _value(name, value)
    if not told:
        return None
    try:
        return msgspec.convert(told, Edits, strict=False)
    except msgspec.ValidationError as error:
        raise _wrong(str(error)) from None


def _value(name: str, text: str) -> Any:
    """Text as it is, but for what only JSON can write."""
    if not text.startswith(("{", "[")):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise _wrong(f"{name}: {error}") from None


def _wrong(told: str) -> click.BadParameter:
    return click.BadParameter(told, param_hint=OPTION)
