"""Sinks: where effects go. Definitions as operators write them, and as workers are given them.

A definition is a value: it names files, hosts and functions, and touches none of them. Secrets are
written by reference (`env:NAME`, `file:PATH`) and looked up where the sink is delivered from, so
that no message and no record ever holds one.
"""

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, structs

from holdfast.wire.amounts import duration_ms
from holdfast.wire.delivery import SERVER, WORKERS
from holdfast.wire.masks import masked_address, masked_secret
from holdfast.wire.networks import network_of
from holdfast.wire.rates import rate_of

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
TABLE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*\.)?[A-Za-z_][A-Za-z0-9_]*")
HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
OWN_HEADERS: Final = frozenset(
    {"idempotency-key", "holdfast-attempt", "content-length", "content-type", "host",
     "transfer-encoding", "connection"}
)  # fmt: skip
LONGEST_TIMEOUT_MS: Final = 3_600_000


class Sink(
    Struct,
    frozen=True,
    kw_only=True,
    tag_field="kind",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """What all sinks have in common.

    `where` it is delivered from: `server` or `workers`; empty is what suits its kind. One delivery
    takes no longer than `timeout`. After `tries` that failed an entry is parked; the pause between
    two is `first_wait`, doubled each time up to `longest_wait`. `circuit` is how many failures in a
    row let the whole sink rest, and for how long first: `5/30s`; empty for never.
    """

    usual: ClassVar[str] = SERVER

    where: str = ""
    timeout: float | str = "30s"
    tries: int = 20
    first_wait: float | str = "1s"
    longest_wait: float | str = "5m"
    circuit: str = "5/30s"

    def __post_init__(self) -> None:
        if self.where not in ("", SERVER, WORKERS):
            raise ValueError(f"where={self.where!r} must be {SERVER!r} or {WORKERS!r}")
        if not self.where:
            structs.force_setattr(self, "where", self._usual_place())
        if not 1 <= self.tries <= 1_000_000:
            raise ValueError(f"tries={self.tries!r} must be between 1 and 1000000")
        if not 0 < self.timeout_ms <= LONGEST_TIMEOUT_MS:
            raise ValueError(f"timeout={self.timeout!r} must be more than nothing and at most 1h")
        if self.first_wait_ms > self.longest_wait_ms:
            raise ValueError(
                f"first_wait={self.first_wait!r} is longer than longest_wait={self.longest_wait!r}"
            )
        self._check_circuit()
        self._check()

    @property
    def timeout_ms(self) -> int:
        return duration_ms(self.timeout, "timeout")

    @property
    def first_wait_ms(self) -> int:
        return duration_ms(self.first_wait, "first_wait")

    @property
    def longest_wait_ms(self) -> int:
        return duration_ms(self.longest_wait, "longest_wait")

    @property
    def circuit_failures(self) -> int:
        """How many failures in a row open the circuit; zero for none."""
        return rate_of(self.circuit)[0]

    @property
    def circuit_cooldown_ms(self) -> int:
        return rate_of(self.circuit)[1]

    def shown(self) -> dict[str, Any]:
        """The definition as people may see it: without secrets."""
        told: dict[str, Any] = msgspec.to_builtins(self)
        return told

    def __repr__(self) -> str:
        told = self.shown()
        fields = ", ".join(f"{name}={told[name]!r}" for name in told if name != "kind")
        return f"{type(self).__name__}({fields})"

    def _usual_place(self) -> str:
        return self.usual

    def _check_circuit(self) -> None:
        try:
            rate_of(self.circuit)
        except ValueError:
            raise ValueError(
                f"circuit={self.circuit[:40]!r} is not of the form 5/30s: failures in a row, and "
                "how long the sink rests then; empty for never"
            ) from None

    def _check(self) -> None:
        """Raise `ValueError` for what makes no sense."""


class FileSink(Sink, frozen=True, tag="file"):
    """Appends a line of JSON an effect to the file at `path`: each exactly once."""

    path: str

    def _check(self) -> None:
        if not self.path or "\0" in self.path:
            raise ValueError(f"path={self.path!r} must name a file")
        if self.where != SERVER:
            raise ValueError("where='workers' would write a file on each of them; leave it out")


class HttpSink(Sink, frozen=True, tag="http"):
    """Posts the body of an effect as JSON to `url`, under its idempotency key.

    Without a `url` each body is `{"to": …, "body": …}`, and `to` must be allowed: it begins with a
    prefix in `allow` (`https://host/path/`), or its host is named there, which stands for https.
    Addresses that are not public are refused, unless `private` is true or lists their network or
    the name of the host. `ca_file` is whom to trust beside the system. `conflict_is_delivered`: an
    answer of 409 says that the receiver has had this key before.
    """

    url: str = ""
    allow: tuple[str, ...] = ()
    private: bool | tuple[str, ...] = False
    headers: dict[str, str] = {}
    ca_file: str = ""
    conflict_is_delivered: bool = False

    def _check(self) -> None:
        if bool(self.url) == bool(self.allow):
            raise ValueError(
                "url is where everything goes, allow is for effects that say where they go: one of "
                "them is needed"
            )
        if self.url:
            check_url(self.url, "url")
        for place in self.allow:
            check_url(place if "://" in place else f"https://{place}/", "allow")
        if not isinstance(self.private, bool):
            for each in self.private:
                network_of(each)
        for name, value in self.headers.items():
            if not HEADER.fullmatch(name) or name.lower() in OWN_HEADERS:
                raise ValueError(f"headers: {name!r} is not one that may be set")
            if not value.isprintable() or not value.isascii():
                raise ValueError(f"headers: the value of {name} must be printable ASCII")

    def shown(self) -> dict[str, Any]:
        told = super().shown()
        if self.headers:
            told["headers"] = {name: masked_secret(text) for name, text in self.headers.items()}
        return told


class FunctionSink(Sink, frozen=True, tag="function"):
    """Calls the Python function `target`, written `module:function`, with an `Effect`. For `open`
    it may be the function itself."""

    usual: ClassVar[str] = WORKERS

    target: Any

    def _check(self) -> None:
        if isinstance(self.target, str):
            check_target(self.target, "target")
        elif not callable(self.target):
            raise ValueError(f"target={self.target!r} must be of the form module:function")

    def shown(self) -> dict[str, Any]:
        if isinstance(self.target, str):
            return super().shown()
        name = getattr(self.target, "__qualname__", repr(self.target))
        return structs.replace(self, target=f"here:{name}").shown()


class PostgresSink(Sink, frozen=True, tag="postgres"):
    """Runs `statement`, or `function` with a cursor, in one transaction with the idempotency key:
    each effect exactly once. `keys_table` is where those keys are; it is made where absent."""

    dsn: str
    statement: str = ""
    function: str = ""
    keys_table: str = "holdfast_effects"

    def _usual_place(self) -> str:
        return WORKERS if self.function else SERVER

    def _check(self) -> None:
        if not self.dsn:
            raise ValueError("dsn must say where the database is; env:NAME keeps it secret")
        if bool(self.statement.strip()) == bool(self.function):
            raise ValueError("one of statement and function is needed")
        if self.function:
            check_target(self.function, "function")
        if not TABLE.fullmatch(self.keys_table):
            raise ValueError(f"keys_table={self.keys_table!r} must be a name, or schema.name")

    def shown(self) -> dict[str, Any]:
        return {**super().shown(), "dsn": masked_address(self.dsn)}


AnySink = FileSink | HttpSink | FunctionSink | PostgresSink
KINDS: Final[Mapping[str, type[Sink]]] = {
    "file": FileSink,
    "http": HttpSink,
    "function": FunctionSink,
    "postgres": PostgresSink,
}

encode_sink: Final = msgspec.msgpack.Encoder().encode
_DECODER: Final[msgspec.msgpack.Decoder[AnySink]] = msgspec.msgpack.Decoder(AnySink)
decode_sink: Final = _DECODER.decode


def check_url(text: str, key: str) -> None:
    """Raise `ValueError` where a sink cannot post there."""
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - reading it is what finds a port that is none
    except ValueError as error:
        raise ValueError(f"{key}={text!r} is not an address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{key}={text!r} must begin with https:// or http:// and name a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"{key}: a password does not belong into an address; use headers")
    if not text.isprintable() or " " in text or parts.fragment:
        raise ValueError(f"{key}={text!r} has something in it that no address has")


def check_target(text: str, key: str) -> None:
    place, colon, name = text.rpartition(":")
    if not (place and colon and name):
        raise ValueError(f"{key}={text!r} must be of the form module:function")


def check_name(name: str) -> None:
    """Raise `ValueError` for what cannot be the name of a sink."""
    if not NAME.fullmatch(name):
        raise ValueError(
            f"a sink cannot be called {name!r}: letters, digits, - and _ make a name, at most 64"
        )


def sink_of(name: str, told: object) -> AnySink:
    """The sink that a table of settings describes; `ValueError` names the key that is wrong."""
    check_name(name)
    where = f"sinks.{name}"
    if not isinstance(told, Mapping):
        raise ValueError(f"{where} must be a table with a kind: {', '.join(KINDS)}")
    kind = KINDS.get(str(told.get("kind", "")))
    if kind is None:
        given = f"kind={told['kind']!r}" if "kind" in told else "kind"
        raise ValueError(f"{where}: {given} must be one of {', '.join(KINDS)}")
    known = [*kind.__struct_fields__]
    for key in told:
        if key != "kind" and key not in known:
            raise ValueError(f"{where}: unknown key {key!r}; a {told['kind']} sink has "
                             f"{', '.join(known)}")  # fmt: skip
    try:
        sink: AnySink = msgspec.convert(told, AnySink)
    except msgspec.ValidationError as error:
        raise ValueError(f"{where}: {error}") from None
    return sink
