"""Documents that are made from the code: written to a file, or compared with it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from holdfast.cli.errors import REFUSED, Trouble
from holdfast.cli.output import typed

F = TypeVar("F", bound=Callable[..., Any])


def document_options(command: F) -> F:
    """`--check FILE` and `--write FILE`."""
    write = click.option(
        "--write",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the document of these to FILE.",
    )
    check = click.option(
        "--check",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Print nothing; fail if FILE is not the document of these.",
    )
    return check(write(command))


def keep_document(
    text: str, command: str, *, check: Path | None, write: Path | None
) -> bool:
    """Write or compare as asked; False where neither was. `command` renews the document."""
    if write is not None:
        write.write_text(text, encoding="utf-8")
    if check is not None:
        renew = f"`{command} --write {typed(check)}`"
        if not check.exists():
            raise Trouble(f"there is no {check}. Make it with {renew}.", REFUSED)
        if check.read_bytes() != text.encode():
            raise Trouble(f"{check} does not match the code. Renew it with {renew}.", REFUSED)
    return write is not None or check is not None
