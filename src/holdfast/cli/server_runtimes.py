"""The class runtimes of a server, as commands look at them."""

from collections.abc import Mapping

from holdfast.cli.asking import Asker
from holdfast.cli.output import View
from holdfast.wire.http import Rejected

PAGE = 1_000


class ServerRuntimes:
    """Those of a server."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def all(self, labels: Mapping[str, str]) -> list[View]:
        found: list[View] = []
        label = [f"{key}={value}" for key, value in labels.items()]
        cursor: str | None = ""
        while cursor is not None:
            told = self._asker.get("runtimes", label=label, limit=PAGE, cursor=cursor)
            found += told["runtimes"]
            cursor = told["next"]
        return found

    def one(self, name: str) -> View | None:
        try:
            return self._asker.get("runtimes", name)
        except Rejected as no:
            if no.problem.code != "not_found":
                raise
        return None

    def events(self, name: str) -> list[View]:
        found: list[View] = self._asker.get("runtimes", name, "events")["events"]
        return found
