"""The first token: how whoever starts a server gets in, and how their commands find it.

The file has the token and nothing else, so that it can be read into a header. The server's address
is in a file beside it, of the same name with `.server` added.
"""

import errno
import os
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.api.identity import Secret, identify, new_secret, read_secret
from holdfast.api.problems import Declined
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.serving import Served
from holdfast.core import commands as c
from holdfast.core.decision import Accepted
from holdfast.core.errors import OperatingError
from holdfast.core.ids import NEVER
from holdfast.wire.token_files import address_file

PRIVATE: Final = 0o600
ADMIN: Final = ("admin",)
WORKER: Final = ("worker",)
LOCAL_FILE: Final = "worker.token"
"""In the data folder: the token of the workers that a server starts itself."""


class NoToken(OperatingError):
    """The file that should hold a token holds something else."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} holds no token. Name another file with --token-file, or remove this one: "
            "a new token is written then."
        )


class Admission(Struct, frozen=True):
    """A token file and what became of it: `new`, `adopted`, `known`, or `foreign` where the log
    has other administrators and does not know this token."""

    path: Path
    how: str


def write_address(token_file: Path, url: str) -> None:
    """Note where the server listens, for commands that name no server. Only advice: a start must
    not need room on a disk."""
    path = address_file(token_file)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        _write(fresh, url + "\n", os.O_TRUNC)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        fresh.unlink(missing_ok=True)
        return
    fresh.replace(path)


async def admit(served: Served, path: Path) -> Admission:
    """Have the token in this file open the log, where nobody has decided otherwise.

    Whoever can start a server on a folder owns it. A file without its token is a fresh one, or
    that of another server of the same person; a token that was revoked is not brought back as
    long as somebody else can administer.
    """
    secret = _read(path)
    how = "adopted"
    if secret is None:
        # First the file, then the record: a crash between them is mended by the next start.
        secret, how = new_secret(), "new"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(path, secret.text + "\n", os.O_EXCL)
    found = secret

    def ask(coordinator: Coordinator) -> str:
        if _opens(coordinator, found):
            return "known"
        if how == "adopted" and _has_administrator(coordinator):
            return "foreign"
        return how if _issue(coordinator, found, "first", ADMIN) else "foreign"

    return Admission(path, await served.ask(ask))


async def admit_workers(served: Served, path: Path) -> None:
    """Have this file hold a token for the workers that the server starts itself."""
    try:
        secret = _read(path)
    except NoToken:
        secret = None
    if secret is not None and await served.ask(lambda k: _opens(k, secret)):
        return
    fresh = new_secret()
    _write(path, fresh.text + "\n", os.O_TRUNC)
    await served.ask(lambda k: _issue(k, fresh, "local workers", WORKER))


def _issue(coordinator: Coordinator, secret: Secret, name: str, scopes: tuple[str, ...]) -> bool:
    decision = coordinator.execute(
        c.IssueToken(token_id=secret.token_id, name=name, digest=secret.digest, scopes=scopes),
        actor="coordinator",
    )
    return isinstance(decision, Accepted)


def _opens(coordinator: Coordinator, secret: Secret) -> bool:
    try:
        identify(coordinator.state, f"Bearer {secret.text}", coordinator.clock.wall())
    except Declined:
        return False
    return True


def _has_administrator(coordinator: Coordinator) -> bool:
    wall = coordinator.clock.wall()
    return any(
        "admin" in token.scopes and (token.expires_wall == NEVER or wall < token.expires_wall)
        for token in coordinator.state.tokens.values()
    )


def _read(path: Path) -> Secret | None:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise NoToken(path) from None
    secret = read_secret(text)
    if secret is None:
        raise NoToken(path)
    return secret


def _write(path: Path, text: str, how: int) -> None:
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | how, PRIVATE)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
