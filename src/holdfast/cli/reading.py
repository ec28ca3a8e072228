"""The options of every command that looks: which folder, at which moment, in which form."""

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from holdfast.cli.moments import FORMS as MOMENTS
from holdfast.cli.moments import parse_moment
from holdfast.cli.output import FORMS
from holdfast.coordinator.inspect import Moment

F = TypeVar("F", bound=Callable[..., Any])

DATA_VARIABLE = "HOLDFAST_DATA_DIR"


def _moment(context: click.Context, option: click.Parameter, value: str | None) -> Moment | None:
    if value is None:
        return None
    try:
        return parse_moment(value, datetime.now().astimezone())
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from None


def data_option(command: F) -> F:
    return click.option(
        "--data",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help=f"The folder of the log. [default: ${DATA_VARIABLE}, else your state folder]",
    )(command)


def at_option(command: F) -> F:
    return click.option(
        "--at",
        callback=_moment,
        metavar="POSITION|TIME",
        help=f"As it was then: {MOMENTS}.",
    )(command)


def output_option(command: F) -> F:
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(FORMS),
        default="table",
        show_default=True,
        envvar="HOLDFAST_OUTPUT",
        show_envvar=True,
        help="The form of what is printed.",
    )(command)


def reads(command: F) -> F:
    """`--data`, `--at` and `-o` together."""
    return data_option(at_option(output_option(command)))


def folder_of(data: Path | None) -> Path:
    """The folder that was named, or the one meant when none is."""
    if data is not None:
        return data
    told = os.environ.get(DATA_VARIABLE)
    if told:
        return Path(told)
    import platformdirs

    return Path(platformdirs.user_state_dir("holdfast")) / "default"
