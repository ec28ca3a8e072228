"""The options that many commands share. Light to import: nothing is opened and nobody is asked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from holdfast.cli.config import load_config
from holdfast.cli.output import FORMS

F = TypeVar("F", bound=Callable[..., Any])

USUAL_SERVER: Final = "http://127.0.0.1:7700"


def server_options(command: F) -> F:
    """`--server` and `--token-file`."""
    token_file = click.option(
        "--token-file",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="The file that holds the token. [default: $HOLDFAST_TOKEN, $HOLDFAST_TOKEN_FILE, "
        "else the one that `holdfast serve` wrote]",
    )
    server = click.option(
        "--server",
        metavar="URL",
        help="The server, a URL or unix:PATH. [default: $HOLDFAST_SERVER, else the one that "
        f"`holdfast serve` wrote down, else {USUAL_SERVER}]",
    )
    return server(token_file(command))


def _usual_form() -> str:
    """What a settings file says, else a table."""
    return str(load_config().get("client.output") or "table")


def output_option(command: F) -> F:
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(FORMS),
        default=_usual_form,
        show_default="table",
        envvar="HOLDFAST_OUTPUT",
        show_envvar=True,
        help="The form of what is printed.",
    )(command)


def reason_option(command: F) -> F:
    return click.option("--reason", default="", help="Why; it is recorded.")(command)


def strict_option(command: F) -> F:
    return click.option(
        "--strict", is_flag=True, help="Fail where this repeats what was done before."
    )(command)


def watch_option(command: F) -> F:
    return click.option("-w", "--watch", is_flag=True, help="Go on showing it as it changes.")(
        command
    )
