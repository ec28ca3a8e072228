"""What a doctor asks a server, and what the answers say about it."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from holdfast.api.listening import Address, CannotListen, bind
from holdfast.cli.asking import Asked, Asker
from holdfast.cli.errors import NOT_ALLOWED, TRY_AGAIN, Trouble, advised
from holdfast.cli.finding import BAD, GOOD, POOR, Finding, good
from holdfast.cli.output import View, counted, typed
from holdfast.cli.servers import FromServer
from holdfast.cli.spans import span
from holdfast.cli.vitals import vitals
from holdfast.core.owed import PARKED
from holdfast.version import VERSION
from holdfast.wire.http import Rejected, Unreachable
from holdfast.wire.token_files import is_near
from holdfast.wire.wanted import WantedEffects

SKEW_MS: Final = 2_000
"""Beyond this, times that people read on two machines do not fit together."""
OTHERS: Final = 0o077
NO_ROUTE: Final = 404
SERVE: Final = "holdfast serve"
NAMED: Final = 5
"""So many names are told; who wants all of them has the command."""


def examine_server(asked: Asked, asker: Asker, *, is_needed: bool) -> Iterator[Finding]:
    """Whether it answers, is well, and lets us in; then what only it knows. One that is not
    `needed` may be away."""
    yield from _token_file(asked)
    before = time.time()
    try:
        shown = asker.http.clock()
    except Unreachable as error:
        state = BAD if is_needed else POOR
        yield Finding("server", state, str(error), SERVE, TRY_AGAIN)
        yield from _port(asker.url)
        return
    took_ms = (time.time() - before) * 1_000
    yield good("server", f"{asker.url} ({asked.url.source}) answers in {took_ms:.0f} ms")
    if shown is not None:
        yield _clock(shown, before, time.time())
    yield from _inside(asked, asker)


def _inside(asked: Asked, asker: Asker) -> Iterator[Finding]:
    """What a server tells those whom it knows."""
    yield _health(asker)
    source = asked.token.source or "none was found"
    try:
        version = str(asker.get("version")["version"])
    except Rejected as no:
        told = f"{source}: {advised(str(no), no.problem.code)}"
        yield Finding("token", BAD, told, "holdfast token create NAME --scope admin", NOT_ALLOWED)
        return
    except (Trouble, KeyError):
        told = f"what answers at {asker.url} is not a Holdfast server"
        yield Finding("port", BAD, told, f"{SERVE} --listen 127.0.0.1:0")
        return
    yield good("token", f"{source} opens it")
    yield _version(version)
    try:
        yield from vitals(asker)
    except Rejected as no:
        told = advised(str(no), no.problem.code)
        yield Finding("invariants", POOR, told, "holdfast token create NAME --scope read")
    yield _asked(asker, "workers", _workers)
    yield _asked(asker, "effects", _effects)
    yield _asked(asker, "versions", lambda each: _versions(each, version))


def _token_file(asked: Asked) -> Iterator[Finding]:
    """A token is as good as a password: nobody else may read its file."""
    file = Path(asked.token.source)
    if not asked.token.source.startswith("/") or not file.is_file():
        return
    mode = file.stat().st_mode & 0o777
    if mode & OTHERS:
        told = f"{file} can be read by others of this machine (mode {mode:03o})"
        yield Finding("token file", BAD, told, f"chmod 600 {typed(file)}")
    else:
        yield good("token file", f"{file} is yours alone")


def _port(url: str) -> Iterator[Finding]:
    """Whether the port of a server that does not answer could be had here."""
    parts = urlsplit(url)
    if url.startswith("unix:") or not is_near(url) or parts.port is None:
        return
    try:
        door, _ = bind(Address(parts.hostname or "", parts.port))
    except CannotListen as error:
        told = f"{error}, and what has it does not answer as a server"
        yield Finding("port", BAD, told, f"ss -ltnp sport = :{parts.port}")
    else:
        door.close()
        yield good("port", f"{parts.port} is free")


def _clock(shown: float, before: float, after: float) -> Finding:
    """Both clocks, told apart as far as a header of whole seconds can tell them."""
    ahead_ms = max(0.0, shown - after, before - (shown + 1)) * 1_000
    if ahead_ms > SKEW_MS:
        told = f"{span(int(ahead_ms))} apart from the server's: set one of them"
        return Finding("clock", POOR, told, "timedatectl status")
    return good("clock", "as the server's, to about a second")


def _health(asker: Asker) -> Finding:
    try:
        told = asker.get("readyz", verbose="1")
    except Unreachable:
        return Finding("health", BAD, "the server takes no requests now", "holdfast doctor", 75)
    except (Rejected, Trouble) as error:
        return Finding("health", BAD, str(error), "holdfast doctor")
    checks: View = told.get("checks", {})
    # To owe something is nothing bad; what is parked, broken or short is told by itself.
    judged = {name: state for name, state in checks.items() if name not in TOLD_APART}
    trouble = [f"{name}: {state}" for name, state in judged.items() if state not in FINE]
    if trouble:
        return Finding("health", POOR, "; ".join(trouble), "holdfast transactions")
    return good("health", ", ".join(f"{name} {state}" for name, state in checks.items()))


TOLD_APART: Final = ("owed", "invariants", "disk")
FINE: Final = ("ok", "no", "none", "done")


def _version(theirs: str) -> Finding:
    if theirs == VERSION:
        return good("version", f"{VERSION} here and there")
    told = f"{VERSION} here, {theirs} there: bring them together"
    return Finding("version", POOR, told, f"pip install holdfast=={theirs}")


def _asked(asker: Asker, name: str, look: Callable[[Asker], Finding]) -> Finding:
    try:
        return look(asker)
    except Rejected as no:
        told = advised(str(no), no.problem.code)
        return Finding(name, POOR, told, "holdfast token create NAME --scope read")


def _workers(asker: Asker) -> Finding:
    known = [w for w in asker.get("workers")["workers"] if w["state"] != "GONE"]
    silent = [str(worker["name"]) for worker in known if worker["state"] == "SILENT"]
    alive = len(known) - len(silent)
    if not alive:
        start = f"holdfast worker start{asker.options}"
        return Finding("workers", POOR, "none is connected, so nothing runs", start)
    told = f"{alive} connected" + (f", {len(silent)} silent: {_some(silent)}" if silent else "")
    lax = [str(worker["name"]) for worker in known if worker.get("memory_caps") == "none"]
    if lax:
        told += f"; {_some(lax)} cannot hold commands to the memory they asked for"
    look = f"holdfast worker list{asker.options}" if silent or lax else ""
    return Finding("workers", POOR if silent or lax else GOOD, told, look)


def _effects(asker: Asker) -> Finding:
    """What is parked waits for a person, and its task with it."""
    source = FromServer(asker)
    try:
        found = source.effects(WantedEffects(states=frozenset({PARKED})), NAMED)
    except Rejected as no:
        if no.problem.status != NO_ROUTE:
            raise
        return good("effects", "this server is older than they are")
    return parked_finding(found.views, found.total, asker.options)


def parked_finding(views: list[View], total: int | None, options: str) -> Finding:
    if not views:
        return good("effects", "nothing is parked")
    count = f"more than {len(views)}" if total is None else str(total)
    names = _some([str(view["id"]) for view in views])
    first = views[0]
    told = f"{count} parked, waiting for somebody to decide: {names}. The first: {first['why']}"
    return Finding("effects", POOR, told, f"holdfast effect show {first['id']}{options}")


def _versions(asker: Asker, server: str) -> Finding:
    """Whether those who work speak as the server does."""
    known = [worker for worker in asker.get("workers")["workers"] if worker.get("version")]
    others = [worker for worker in known if worker["version"] != server]
    if not others:
        return good("versions", f"{counted(len(known), 'worker')} of the server's, {server}")
    told = ", ".join(
        f"{count} of {version}"
        for version, count in sorted(Counter(str(w["version"]) for w in others).items())
    )
    names = _some([str(worker["name"]) for worker in others])
    return Finding(
        "versions", POOR, f"the server is of {server}, workers are not: {told} ({names})",
        f"holdfast worker drain{asker.options} {typed(Path(str(others[0]['name'])))}",
    )  # fmt: skip


def _some(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
