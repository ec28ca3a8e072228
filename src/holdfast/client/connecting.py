"""`holdfast.connect`: the same calls as `holdfast.open`, against a server."""

import os
from pathlib import Path
from typing import Final

from holdfast.client.holdfast import Holdfast
from holdfast.client.remote import Remote
from holdfast.wire.amounts import Duration, duration_ms
from holdfast.wire.http import Server
from holdfast.wire.token_files import own_address, own_token
from holdfast.worker.functions import MissingGuard, loading_script

SCHEMES: Final = ("http://", "https://", "unix:")


def connect(
    url: str | None = None,
    *,
    token: str | None = None,
    token_file: str | Path | None = None,
    ca_file: str | Path | None = None,
    patience: Duration = "1m",
    strict: bool = False,
) -> Holdfast:
    """Use the server at `url` (`http://…`, `https://…` or `unix:/path`), else the one that
    HOLDFAST_SERVER names, else the one that this user started last on this machine.

    The token is `token`, else what is in `token_file`, else HOLDFAST_TOKEN, else what is in the
    file HOLDFAST_TOKEN_FILE names, else, for that last server, the one it wrote when it started.
    `ca_file` holds certificates to trust beside the system's. While the server is away, calls and
    waiting go on for `patience`, then raise `Unreachable`; nothing is sent before the first call.
    `strict` turns a repeat of what was done before into an error that changes nothing.

    Workers import a function by its module and name, so it must be installed where they run. A
    function of the script that was started is recorded by the script's path: only workers that
    find the same file there can run it.
    """
    loading = loading_script()
    if loading is not None:
        raise MissingGuard.told(
            f"{loading} has no `if __name__ == '__main__':` guard: it calls holdfast.connect() "
            "while a worker loads it to find its functions. Put that call under the guard."
        )
    where = url or os.environ.get("HOLDFAST_SERVER", "") or own_address()
    if not where:
        raise ValueError("which server? Give connect() a url, or set HOLDFAST_SERVER")
    if not where.startswith(SCHEMES):
        raise ValueError(f"url={where!r} must begin with {', '.join(SCHEMES)}")
    server = Server(
        url=where,
        token=_token(token, token_file) or own_token(where),
        ca_file="" if ca_file is None else str(ca_file),
        strict=strict,
    )
    return Holdfast(Remote(server, patience_s=duration_ms(patience, "patience") / 1_000), 0)


def _token(token: str | None, token_file: str | Path | None) -> str:
    """The nearest one wins."""
    if token is not None:
        return token.strip()
    if token_file is not None:
        return _read(Path(token_file))
    named = os.environ.get("HOLDFAST_TOKEN", "").strip()
    if named:
        return named
    file = os.environ.get("HOLDFAST_TOKEN_FILE", "")
    if file:
        return _read(Path(file))
    return ""


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the token cannot be read from {file}: {error}") from None
