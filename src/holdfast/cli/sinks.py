"""Sinks in settings files: tables `[sinks.NAME]`, read whole from the first file that names one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import NODEFAULT, Struct, structs

from holdfast.cli.config import Config
from holdfast.cli.errors import USAGE, Trouble
from holdfast.wire.sinks import KINDS, AnySink, FileSink, Sink, sink_of

HEAD: Final = """
## sinks

Where effects go: a table each, in a settings file, named as effects name it. All of it is *live*.

    [sinks.ledger]
    kind = "file"
    path = "/var/lib/ledger.jsonl"

A secret is written as `env:NAME` or `file:PATH` and looked up where the sink is delivered from.
Every kind has these keys:
"""


ABOUT: Final[Mapping[str, str]] = {
    "where": "`server` or `workers`: who delivers; empty: what suits the kind",
    "timeout": "how long one delivery may take",
    "tries": "how many may fail before an entry is parked",
    "first_wait": "the pause after the first failure; each further one is twice as long",
    "longest_wait": "the longest pause",
    "circuit": "so many failures in a row and the sink rests, so long at first; empty: never",
    "path": "the file, absolute; it gets a line of JSON for each effect",
    "url": "where all effects are posted",
    "allow": "hosts (https) and prefixes of addresses, for effects that say where they go",
    "private": "whether addresses that are not public may be used, or a list of those that may",
    "headers": "more headers of a request",
    "ca_file": "whom to trust beside the system",
    "conflict_is_delivered": "409 means that the receiver had this effect before",
    "target": "the function, as module:function; it is called with the effect",
    "dsn": "where the database is",
    "statement": "what is run: %(id)s, %(key)s, %(body)s and %(body.NAME)s are of the effect",
    "function": "or a function, as module:function; it is called with a cursor and the effect",
    "keys_table": "where idempotency keys are kept; made where absent",
}


class FoundSink(Struct, frozen=True):
    """A sink and the file that names it."""

    name: str
    sink: AnySink
    path: Path


def read_sink(path: Path, name: str, told: object) -> AnySink:
    """One table of a file, or the mistake in it, told with the file."""
    try:
        sink = sink_of(name, told)
        if isinstance(sink, FileSink) and not Path(sink.path).is_absolute():
            raise ValueError(f"sinks.{name}: path={sink.path!r} must be absolute")
    except ValueError as error:
        raise Trouble(f"{path}: {error}", USAGE) from None
    return sink


def sinks_of(config: Config) -> list[FoundSink]:
    """Where effects may go. Whatever a farther file says of a sink is not used, but must make
    sense."""
    found: dict[str, FoundSink] = {}
    for path, tables in config.sinks:
        for name, told in tables.items():
            found.setdefault(name, FoundSink(name, read_sink(path, name, told), path))
    return list(found.values())


def document() -> str:
    """The keys of every kind, as a page shows them."""
    common = {field.name for field in structs.fields(Sink)}
    parts = [HEAD, _table(Sink, common)]
    for kind, sink in KINDS.items():
        own = {field.name for field in structs.fields(sink)} - common
        parts += [f"\n`kind = \"{kind}\"`:\n", _table(sink, own)]
    return "".join(parts)


def _table(sink: type[Sink], names: set[str]) -> str:
    rows = ["\n| Key | Default | Means |\n|---|---|---|\n"]
    for field in structs.fields(sink):
        if field.name in names:
            rows.append(f"| `{field.name}` | {_default(field)} | {ABOUT[field.name]} |\n")
    return "".join(rows)


def _default(field: structs.FieldInfo) -> str:
    if field.default is NODEFAULT:
        return "needed" if field.default_factory is NODEFAULT else ""
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    return f"`{field.default}`" if field.default not in ("", ()) else ""
