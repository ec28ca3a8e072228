"""Class runtimes, as a program declares them, looks at them and calls their functions."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol
from urllib.parse import quote

from msgspec import Struct

from holdfast.client.balancing import RoundRobin
from holdfast.client.errors import Refused
from holdfast.client.remote_desk import RemoteDesk
from holdfast.client.runtime_wishes import Document, wish_of
from holdfast.runtimes.descriptor import name_by_key
from holdfast.wire.amounts import Duration, duration_ms, text

RUNTIMES: Final = "/api/v1/runtimes"
PAGE: Final = 1_000
Documents = list[Document]

LONG_S: Final = 30.0
"""How long a server is asked to wait with its answer."""


class Applied(Struct, frozen=True):
    """What became of a declaration: `created`, `configured` or `unchanged`. `runtime` is the whole
    of it; None for a dry run."""

    name: str
    change: str
    runtime: Document | None = None


class KeptRuntimes(Protocol):
    """Class runtimes of a coordinator: its own, or one behind a server. Refusals are raised as
    `Refused`, whatever returns is durable."""

    def apply(self, manifest: Mapping[str, Any], *, dry_run: bool) -> Applied: ...

    def known(self, labels: Mapping[str, str]) -> list[Document]: ...

    def show(self, name: str) -> Document: ...

    def changed(self, name: str, version: int, wait_s: float) -> Document:
        """The runtime when it is no longer at that version, or after so long."""

    def events(self, name: str) -> list[Document]: ...

    def delete(self, name: str) -> str: ...

    def addresses(self, service: str) -> list[str]: ...


class Runtimes:
    """What `hf.runtimes` is: functions that are declared and kept up. Each runtime is the document
    that `holdfast runtime show -o json` prints."""

    def __init__(self, kept: KeptRuntimes) -> None:
        self._kept = kept

    def apply(self, manifest: Mapping[str, Any], *, dry_run: bool = False) -> Applied:
        """Have a runtime be as a manifest says: made where there is none, changed where it differs.
        What is wrong with it is refused with the path of the field."""
        return self._kept.apply(manifest, dry_run=dry_run)

    def list(self, *, labels: Mapping[str, str] | None = None) -> Documents:
        """Every runtime, by name; with `labels` those that have all of these."""
        return self._kept.known(labels or {})

    def get(self, name: str) -> Document:
        """One of them, `spec` and `status`."""
        return self._kept.show(text(name, "name"))

    def events(self, name: str) -> Documents:
        """What was told about it of late, the latest last."""
        return self._kept.events(text(name, "name"))

    def delete(self, name: str) -> str:
        """Take it down: `deleting`, or `deleted` where there was nothing to clean up."""
        return self._kept.delete(text(name, "name"))

    def wait(
        self, name: str, wish: str = "phase=available", *, timeout: Duration | None = None
    ) -> Document | None:
        """Wait until a runtime is as wished: `phase=available`, `condition=Ready`, `deleted`. The
        runtime then, None where it is gone; `TimeoutError` when the time is up."""
        wanted = wish_of(wish)
        until = None
        if timeout is not None:
            until = time.monotonic() + duration_ms(timeout, "timeout") / 1_000
        found: Document | None = None
        while True:
            try:
                found = self._look(name, found, until)
            except Refused as no:
                if no.code != "not_found" or not wanted.is_end:
                    raise
                return None
            if wanted.is_met(found):
                return found
            if found["metadata"]["deletionTimestamp"] and not wanted.lasts:
                raise Refused("conflict", f"{name} is being deleted; {wish} cannot come any more")
            if until is not None and time.monotonic() >= until:
                phase = found["status"]["phase"]
                raise TimeoutError(f"{name} is {phase}, and {wish} had not come in time")

    def endpoints(self, name: str, function: str, **options: Any) -> RoundRobin:
        """The replicas of a function in turn: `hf.runtimes.endpoints("greeter", "hello").next()` is
        an address that takes requests."""
        service = name_by_key(text(name, "name"), text(function, "function"))
        return RoundRobin(
            lambda: self._kept.addresses(service), f"{name}/{function}",
            changed=self._changes_of(name), **options,
        )  # fmt: skip

    def _changes_of(self, name: str) -> Callable[[], bool]:
        """Waits until a runtime is not as it was when it was last asked about."""
        kept, seen = self._kept, 0

        def changed() -> bool:
            nonlocal seen
            before, seen = seen, kept.changed(name, seen, LONG_S)["metadata"]["resourceVersion"]
            return bool(seen != before)

        return changed

    def _look(self, name: str, before: Document | None, until: float | None) -> Document:
        if before is None:
            return self._kept.show(text(name, "name"))
        left_s = LONG_S if until is None else min(LONG_S, max(0.0, until - time.monotonic()))
        return self._kept.changed(name, before["metadata"]["resourceVersion"], left_s)


class RemoteRuntimes(RemoteDesk):
    """Those of a server."""

    def apply(self, manifest: Mapping[str, Any], *, dry_run: bool) -> Applied:
        query = {"dry_run": "true"} if dry_run else {}
        told = self._post("/runtimes", dict(manifest), dict, **query)
        return Applied(told["name"], told["change"], told.get("runtime"))

    def known(self, labels: Mapping[str, str]) -> list[Document]:
        found: list[Document] = []
        label = [f"{key}={value}" for key, value in labels.items()]
        cursor: str | None = ""
        while cursor is not None:
            told = self._get(RUNTIMES, label=label, limit=PAGE, cursor=cursor)
            found += told["runtimes"]
            cursor = told["next"]
        return found

    def show(self, name: str) -> Document:
        return self._get(_path(name))

    def changed(self, name: str, version: int, wait_s: float) -> Document:
        return self._get(_path(name), wait=f"{max(1, int(wait_s * 1_000))}ms", version=version)

    def events(self, name: str) -> list[Document]:
        found: list[Document] = self._get(f"{_path(name)}/events")["events"]
        return found

    def delete(self, name: str) -> str:
        told: Document = self._asked(lambda: self._http.delete(_path(name), dict))
        return str(told["change"])

    def addresses(self, service: str) -> list[str]:
        found = self._get("/api/v1/endpoints", name=service)["endpoints"]
        return [each["address"] for each in found]

    def _get(self, path: str, **query: Any) -> Document:
        found: Document = self._asked(lambda: self._http.get(path, dict, **query))
        return found


def _path(name: str) -> str:
    if not name:
        raise Refused("not_found", "there is no runtime without a name")
    return f"{RUNTIMES}/{quote(name, safe='')}"
