"""`holdfast doctor`: what may be wrong, looked at one by one."""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import click
from msgspec import Struct

from holdfast.cli.asking import Asked, Asker, find_server
from holdfast.cli.errors import REFUSED, Trouble, advised
from holdfast.cli.options import output_option, server_options
from holdfast.cli.output import TABLES, Column, View, draw, emit_list, note
from holdfast.cli.reading import DATA_VARIABLE
from holdfast.cli.spans import size, span
from holdfast.version import VERSION
from holdfast.wire.http import Rejected, Unreachable

GOOD: Final = "GOOD"
POOR: Final = "POOR"
BAD: Final = "BAD"

SKEW_MS: Final = 2_000
"""Beyond this, times that people read on two machines do not fit together."""
FREE_BYTES: Final = 1024**3
FREE_BYTES_LEAST: Final = 64 * 1024**2
SYNCS: Final = 20
SYNC_MS: Final = 20.0


class Finding(Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    state: str
    told: str

    def view(self) -> View:
        return {"name": self.name, "state": self.state, "told": self.told}


@click.command()
@click.option("--data", type=click.Path(path_type=Path), metavar="DIR",
              help=f"Look at the disk of this folder too. [default: ${DATA_VARIABLE}]")  # fmt: skip
@server_options
@output_option
def doctor(data: Path | None, server: str | None, token_file: Path | None, form: str) -> int:
    """Check the server, the token, the clock, the workers and the disk.

    Exits 1 where anything is bad; what is poor works, and may surprise.
    """
    asked = find_server(server, token_file)
    http = asked.http()
    try:
        findings = [*_server(asked, Asker(asked, http))]
    finally:
        http.close()
    told = data or (Path(os.environ[DATA_VARIABLE]) if os.environ.get(DATA_VARIABLE) else None)
    if told is not None:
        findings += _disk(told)
    columns = [Column("CHECK"), Column("STATE"), Column("FOUND")]
    rows = [[finding.name, finding.state, finding.told] for finding in findings]
    views = [finding.view() for finding in findings]
    emit_list(form, "checks", views, draw(columns, rows) if form in TABLES else "")
    bad = [finding.name for finding in findings if finding.state == BAD]
    if bad:
        note(f"holdfast: not well: {', '.join(bad)}")
    return REFUSED if bad else 0


def _server(asked: Asked, asker: Asker) -> Iterator[Finding]:
    where = f"{asker.url} ({asked.url.source})"
    before = time.time()
    try:
        shown = asker.http.clock()
    except Unreachable as error:
        yield Finding("server", BAD, str(error))
        return
    took_ms = (time.time() - before) * 1_000
    yield Finding("server", GOOD, f"{where} answers in {took_ms:.0f} ms")
    if shown is not None:
        yield _clock(shown, before, time.time())
    source = asked.token.source or "none was found"
    try:
        version = asker.get("version")
    except Rejected as no:
        yield Finding("token", BAD, f"{source}: {advised(str(no), no.problem.code)}")
        return
    except Trouble as trouble:
        yield Finding("server", BAD, str(trouble))
        return
    yield Finding("token", GOOD, f"{source} opens it")
    yield _version(str(version["version"]))
    yield _asked(asker, "workers", _workers)


def _clock(shown: float, before: float, after: float) -> Finding:
    """Both clocks, told apart as far as a header of whole seconds can tell them."""
    ahead_ms = max(0.0, shown - after, before - (shown + 1)) * 1_000
    if ahead_ms > SKEW_MS:
        told = f"{span(int(ahead_ms))} apart from the server's: set one of them"
        return Finding("clock", POOR, told)
    return Finding("clock", GOOD, "as the server's, to about a second")


def _version(theirs: str) -> Finding:
    if theirs == VERSION:
        return Finding("version", GOOD, f"{VERSION} here and there")
    return Finding("version", POOR, f"{VERSION} here, {theirs} there: bring them together")


def _asked(asker: Asker, name: str, look: Callable[[Asker], Finding]) -> Finding:
    try:
        return look(asker)
    except Rejected as no:
        return Finding(name, POOR, advised(str(no), no.problem.code))


def _workers(asker: Asker) -> Finding:
    known = [w for w in asker.get("workers")["workers"] if w["state"] != "GONE"]
    silent = [worker["name"] for worker in known if worker["state"] == "SILENT"]
    alive = len(known) - len(silent)
    if not alive:
        start = f"`holdfast worker start{asker.options}` starts one"
        return Finding("workers", POOR, f"none is connected, so nothing runs: {start}")
    told = f"{alive} connected" + (f", {len(silent)} silent" if silent else "")
    lax = [worker["name"] for worker in known if worker.get("memory_caps") == "none"]
    if lax:
        told += f"; {', '.join(lax)} cannot hold commands to the memory they asked for"
    return Finding("workers", POOR if silent or lax else GOOD, told)


def _disk(path: Path) -> Iterator[Finding]:
    if not path.is_dir():
        yield Finding("data", BAD, f"there is no folder {path}: `holdfast serve --data` makes it")
        return
    free = shutil.disk_usage(path).free
    state = GOOD if free >= FREE_BYTES else POOR if free >= FREE_BYTES_LEAST else BAD
    yield Finding("space", state, f"{size(free)} are free in {path}")
    try:
        took = sorted(_sync_times(path))
    except OSError as error:
        yield Finding("disk", BAD, f"{path} cannot be written: {error.strerror}")
        return
    usual, worst = took[len(took) // 2], took[-1]
    told = f"a sync takes {usual:.1f} ms, at worst {worst:.1f} ms"
    if usual > SYNC_MS:
        yield Finding("disk", POOR, f"{told}: every answer waits that long")
    else:
        yield Finding("disk", GOOD, told)


def _sync_times(path: Path) -> list[float]:
    """How long the disk takes to keep a little more of a file, in milliseconds."""
    took = []
    with tempfile.TemporaryFile(dir=path) as file:
        for _ in range(SYNCS):
            file.write(bytes(4_096))
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - began) * 1_000)
    return took
