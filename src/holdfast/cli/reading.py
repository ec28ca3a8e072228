"""The options of every command that looks: at which server or folder, when, in which form."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from msgspec import Struct

from holdfast.cli.errors import USAGE, Trouble
from holdfast.cli.options import output_option, server_options
from holdfast.cli.sources import Source

F = TypeVar("F", bound=Callable[..., Any])

DATA_VARIABLE = "HOLDFAST_DATA_DIR"


class Look(Struct, frozen=True):
    """What was asked to be looked at. `at` is a moment of a log: only who opens one needs to know
    what that is."""

    data: Path | None = None
    at: Any = None
    server: str | None = None
    token_file: Path | None = None

    @contextmanager
    def source(self, *, is_patient: bool = False) -> Iterator[Source]:
        """The folder that was named; where none was, the server. `is_patient`: somebody waits
        anyway, and a server may be started again meanwhile."""
        path = self.folder()
        if path is not None:
            from holdfast.cli.folders import FromFolder

            yield FromFolder(path, self.at)
            return
        if self.at is not None:
            raise Trouble(
                "--at looks into a log, and a server shows only what is: name the folder of the "
                "log with --data DIR.",
                USAGE,
            )
        from holdfast.cli.asking import asking
        from holdfast.cli.servers import FromServer

        with asking(self.server, self.token_file) as asker:
            if not is_patient:
                yield FromServer(asker)
                return
            with asker.patient() as patient:
                yield FromServer(patient)

    def moment(self) -> str:
        """The moment as a server is told it; empty for now."""
        return "" if self.at is None else told_moment(self.at)

    def folder(self) -> Path | None:
        """The folder that was named, by the command or the environment; None: ask a server."""
        if self.data is not None and self.server is not None:
            raise Trouble("--data reads a folder and --server asks a server: name one.", USAGE)
        if self.data is not None or self.server is not None:
            return self.data
        told = os.environ.get(DATA_VARIABLE)
        return Path(told) if told else None


def told_moment(moment: Any) -> str:
    """A moment of a log in the form that travels: a position, or a time with its zone."""
    from holdfast.coordinator.views import rfc3339

    return str(moment.position) if moment.position is not None else rfc3339(moment.wall)


def moment_of(context: click.Context, option: click.Parameter, value: str | None) -> Any:
    if value is None:
        return None
    from holdfast.cli.moments import parse_moment

    try:
        return parse_moment(value, datetime.now().astimezone())
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from None


def data_option(command: F) -> F:
    return folder_option("else your state folder")(command)


def folder_option(otherwise: str) -> Callable[[F], F]:
    return click.option(
        "--data",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help=f"The folder of the log. [default: ${DATA_VARIABLE}, {otherwise}]",
    )


def at_option(command: F) -> F:
    return click.option(
        "--at",
        callback=moment_of,
        metavar="POSITION|TIME",
        help="As it was then, from a folder: a position (412), a time (2026-03-01T12:00:00Z), "
        "14:05 today, or 10m ago.",
    )(command)


def looks(command: F) -> F:
    """`--server`, `--token-file`, `--data` and `--at`, given to the command as one `look`."""

    @wraps(command)
    def looked(
        data: Path | None,
        at: Any,
        server: str | None,
        token_file: Path | None,
        **rest: Any,
    ) -> Any:
        return command(look=Look(data, at, server, token_file), **rest)

    folder = folder_option("else the server is asked")
    return cast(F, server_options(folder(at_option(looked))))


def reads(command: F) -> F:
    """All of that, and `-o`."""
    return looks(output_option(command))


def folder_of(data: Path | None) -> Path:
    """The folder that was named, or the one meant when none is."""
    if data is not None:
        return data
    told = os.environ.get(DATA_VARIABLE)
    if told:
        return Path(told)
    import platformdirs

    return Path(platformdirs.user_state_dir("holdfast")) / "default"
