"""The quarantine of a server, page after page."""

from collections.abc import Iterator
from typing import Any

from holdfast.cli.asking import Asker
from holdfast.cli.output import View
from holdfast.wire.quarantine import WantedCases, joined_counts, joined_groups, query_of


class ServerWard:
    """Those of a server."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def cases(self, wanted: WantedCases, limit: int = 0) -> tuple[list[View], int | None]:
        found: list[View] = []
        for told in self._parts(wanted, limit=min(limit + 1, 1_000) if limit else 1_000):
            found += told["tasks"]
            if limit and len(found) > limit:
                return found[:limit], None
        return found, len(found)

    def groups(self, wanted: WantedCases) -> list[View]:
        return joined_groups(told["groups"] for told in self._parts(wanted, "groups"))

    def counts(self, wanted: WantedCases) -> View:
        parts = [*self._parts(wanted, "stats")]
        for part in parts:
            part.pop("next"), part.pop("schema")
        return joined_counts(parts)

    def case(self, job_id: str, index: int) -> View | None:
        return self._asker.get("quarantine", job_id, index)

    def _parts(self, wanted: WantedCases, *path: str, **query: Any) -> Iterator[View]:
        cursor: str | None = None
        while True:
            told = self._asker.get("quarantine", *path, cursor=cursor, **query_of(wanted), **query)
            cursor = told["next"]
            yield told
            if cursor is None:
                return
