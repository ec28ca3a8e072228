"""Where commands that look at class runtimes get what they show: a server, or a folder."""

from typing import Protocol

from holdfast.cli.asking import Asker
from holdfast.cli.errors import NOT_FOUND, Trouble
from holdfast.cli.output import View
from holdfast.wire.http import Rejected

PAGE = 1_000


class Runtimes(Protocol):
    """Class runtimes, wherever they are declared."""

    def all(self) -> list[View]:
        """Every one of them, by name."""
        ...

    def one(self, name: str) -> View | None:
        """The one of this name; None where there is none."""
        ...

    def events(self, name: str) -> list[View]:
        """What was told about it, the latest last."""
        ...


class ServerRuntimes:
    """Those of a server."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def all(self) -> list[View]:
        found: list[View] = []
        cursor: str | None = ""
        while cursor is not None:
            told = self._asker.get("runtimes", limit=PAGE, cursor=cursor)
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


def no_runtime(name: str, place: str, options: str) -> Trouble:
    return Trouble(
        f"there is no runtime {name} {place}. `holdfast runtime list{options}` lists what there "
        "is.",
        NOT_FOUND,
    )
