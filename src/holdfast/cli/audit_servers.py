"""The audit trail of a server."""

from collections.abc import Iterator
from typing import Final

from holdfast.cli.asking import Asker
from holdfast.cli.output import View
from holdfast.wire.wanted_entries import WantedEntries, query_of

PAGE: Final = 1_000
IDLE_S: Final = 60.0


class ServerAudit:
    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def entries(self, wanted: WantedEntries, limit: int) -> list[View]:
        found: list[View] = []
        cursor: str | None = ""
        query = query_of(wanted)
        while cursor is not None and (not limit or len(found) < limit):
            part = min(limit - len(found), PAGE) if limit else PAGE
            told = self._asker.get("audit", limit=part, cursor=cursor, **query)
            found, cursor = told["entries"] + found, told["next"]
        return found[-limit:] if limit else found

    def head(self) -> View:
        told = self._asker.get("audit", "head")
        return {name: told[name] for name in ("log_id", "position", "head")}

    def export(self, first: int, last: int) -> Iterator[bytes]:
        query = {name: at for name, at in (("first", first), ("last", last)) if at}
        rest = b""
        with self._asker.http.stream("/api/v1/audit/export", idle_s=IDLE_S, **query) as pieces:
            for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                yield from (line + b"\n" for line in lines)
        if rest:
            yield rest
