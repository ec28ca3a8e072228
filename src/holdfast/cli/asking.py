"""Which server is asked, and as whom.

The address comes from `--server`, HOLDFAST_SERVER, a settings file, or the file in which `holdfast
serve` wrote where it listens; else it is the usual one of this machine. The token comes from
`--token-file`, HOLDFAST_TOKEN, HOLDFAST_TOKEN_FILE, a settings file, or the file that `holdfast
serve` wrote. That last one is for the server that wrote it and for this machine: it is never sent
to a stranger.
"""

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shlex import quote as typed_text
from typing import Any, Final
from urllib.parse import quote, urlsplit

from msgspec import DecodeError, Struct, structs

from holdfast.cli.config import Config, load_config
from holdfast.cli.errors import NOT_FOUND, USAGE, Trouble
from holdfast.cli.options import USUAL_SERVER
from holdfast.cli.output import View
from holdfast.wire.http import Http, Server
from holdfast.wire.token_files import address_file, is_near, usual_token_file

API: Final = "/api/v1"
TOKEN_VARIABLE: Final = "HOLDFAST_TOKEN"  # noqa: S105 - the name of a variable, not a secret
PATIENCE_S: Final = 1.0
"""How long a command that only asks once bears with a server that does not answer."""
LONG_PATIENCE_S: Final = 300.0
"""The same for a command that waits for something anyway: a server may be started again."""


class Told(Struct, frozen=True):
    """A value and where it was found."""

    value: str
    source: str


class Asked(Struct, frozen=True, kw_only=True):
    """The server that is meant, with the token to show it. `named`: by an option of this command,
    so that a command named to the user has to name it too."""

    url: Told
    token: Told
    ca_file: str = ""
    named: tuple[str, ...] = ()
    strict: bool = False

    def http(self, patience_s: float | None = None) -> Http:
        server = Server(
            url=self.url.value, token=self.token.value, ca_file=self.ca_file, strict=self.strict
        )
        return Http(server, patience_s=PATIENCE_S if patience_s is None else patience_s)


class Asker:
    """Questions to one server."""

    def __init__(self, asked: Asked, http: Http) -> None:
        self.asked = asked
        self.http = http
        self.url = asked.url.value

    @property
    def options(self) -> str:
        """What to add to a command so that it asks the same server, with a space before it."""
        return "".join(f" {part}" for part in self.asked.named)

    def get(self, *path: object, **query: Any) -> View:
        return self._understood(lambda: self.http.get(_path(path), dict, **query))

    def post(
        self, *path: object, body: Struct | Mapping[str, Any] | None = None, **query: Any
    ) -> View:
        """Ask for a change, once, however often it must be said."""
        key = secrets.token_hex(16)
        return self._understood(lambda: self.http.post(_path(path), body, dict, key=key, **query))

    def put(self, *path: object, body: Struct) -> View:
        return self._understood(lambda: self.http.put(_path(path), body, dict))

    def patch(self, *path: object, body: Struct) -> View:
        return self._understood(lambda: self.http.patch(_path(path), body, dict))

    def delete(self, *path: object) -> View:
        return self._understood(lambda: self.http.delete(_path(path), dict))

    def _understood(self, ask: Callable[[], View]) -> View:
        try:
            return ask()
        except DecodeError:
            raise Trouble(
                f"what answers at {self.url} is not a Holdfast server. Name another with --server; "
                "`holdfast doctor` says where this one comes from."
            ) from None

    @contextmanager
    def patient(self) -> Iterator["Asker"]:
        """The same server, asked by somebody who has time."""
        http = self.asked.http(LONG_PATIENCE_S)
        try:
            yield Asker(self.asked, http)
        finally:
            http.close()


@contextmanager
def asking(
    server: str | None, token_file: Path | None, *, strict: bool = False
) -> Iterator[Asker]:
    """Somebody to ask, for as long as it takes. `strict`: to be told of a repeat."""
    asked = find_server(server, token_file)
    if strict:
        asked = structs.replace(asked, strict=True)
    http = asked.http()
    try:
        yield Asker(asked, http)
    finally:
        http.close()


def find_server(
    server: str | None, token_file: Path | None, environment: Mapping[str, str] | None = None
) -> Asked:
    """The server that is meant, and the token to show it."""
    known = os.environ if environment is None else environment
    config = load_config(environment)
    usual = usual_token_file()
    named_file = config.find("client.token_file", None if token_file is None else str(token_file))
    written = _read(address_file(usual))
    beside = _read(address_file(Path(named_file.value))) if named_file.value else written
    url = _url(config, server, beside if beside.value else written)
    token = _token(known, named_file.value, named_file.source, is_flag=token_file is not None)
    if not token.value and (is_near(url.value) or url.value == written.value):
        token = _read(usual)
    if not (token.value.isascii() and token.value.isprintable()) or " " in token.value:
        raise Trouble(
            f"{token.source} holds no token: a token is one word, as `holdfast token create` "
            "prints it.",
            USAGE,
        )
    named = [] if server is None else [f"--server {typed_text(server)}"]
    if token_file is not None:
        named.append(f"--token-file {typed_text(str(token_file))}")
    ca_file = str(config.get("client.ca_file"))
    strict = bool(config.get("client.strict"))
    return Asked(url=url, token=token, ca_file=ca_file, named=tuple(named), strict=strict)


def _url(config: Config, server: str | None, beside: Told) -> Told:
    found = config.find("client.server", server)
    if found.value:
        return Told(_checked(str(found.value), found.source), found.source)
    return beside if beside.value else Told(USUAL_SERVER, "the default")


def _checked(url: str, source: str) -> str:
    if url.startswith("unix:") and url != "unix:":
        return url
    # People write host:port; nobody means anything else by it.
    whole = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(whole)
        is_http = parts.scheme in ("http", "https") and url != "unix:"
        is_good = is_http and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        raise Trouble(
            f"{url!r} of {source} is not a server: write {USUAL_SERVER} or unix:/path/to/socket.",
            USAGE,
        )
    return whole.rstrip("/")


def _token(known: Mapping[str, str], file: str, source: str, *, is_flag: bool) -> Told:
    text = known.get(TOKEN_VARIABLE, "").strip()
    if text and not is_flag:
        return Told(text, TOKEN_VARIABLE)
    if not file:
        return Told("", "")
    found = _read(Path(file))
    if not found.value:
        raise Trouble(
            f"there is no token in {file}, named by {source}. `holdfast doctor` says which files "
            "are looked at; `holdfast token create` makes a token.",
            USAGE,
        )
    return found


def _read(path: Path) -> Told:
    """The one line of a small file; nothing where there is no such file."""
    try:
        return Told(path.read_text(encoding="utf-8").strip(), str(path))
    except (FileNotFoundError, NotADirectoryError):
        return Told("", "")
    except UnicodeDecodeError:
        raise Trouble(f"{path} holds no text.", USAGE) from None


def _path(parts: tuple[object, ...]) -> str:
    for part in parts:
        # These would lead elsewhere than to what is named.
        if str(part) in ("", ".", ".."):
            raise Trouble(f"{str(part)!r} names nothing.", NOT_FOUND)
    return "/".join([API, *(quote(str(part), safe="") for part in parts)])
