"""Why work is where it is, as a program is told: every reason, in words and as codes."""

from collections.abc import Callable
from typing import Any, Final, Protocol

from msgspec import Struct

from holdfast.client.foreseen import Why
from holdfast.core.ids import Index, JobId
from holdfast.wire.http import Http

API: Final = "/api/v1"


class Standing(Struct, frozen=True):
    """A worker, and everything that stands against a task there; nothing where there is room."""

    worker: str
    against: tuple[str, ...]


class Explained(Struct, frozen=True, kw_only=True):
    """A job (`7`) or a task (`7/3`) with every reason for where it is, the most telling first.
    `ahead` is how many waiting tasks go before it; `standing` has each worker by itself."""

    id: str
    state: str
    reasons: tuple[Why, ...]
    ahead: int = 0
    standing: tuple[Standing, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.id} is {self.state}", *(f"- {why.sentence}" for why in self.reasons)]
        return "\n".join(lines)


class Counted(Struct):
    code: str
    tasks: int


class Summary(Struct):
    reasons: list[Counted]


class Reasons(Protocol):
    """Why work is where it is, with a coordinator of its own or behind a server."""

    def of(self, job_id: JobId, index: Index | None) -> Explained: ...

    def waiting(self) -> dict[str, int]: ...


EVERYTHING: Final = 3
"""The level at which workers are told one by one: a program takes what it wants."""


class RemoteReasons:
    """At a server. `asked` has a question answered, or its refusal raised."""

    def __init__(self, http: Http, asked: Callable[[Callable[[], Any]], Any]) -> None:
        self._http = http
        self._asked = asked

    def of(self, job_id: JobId, index: Index | None) -> Explained:
        what = f"jobs/{job_id}" if index is None else f"tasks/{job_id}/{index}"
        path = f"{API}/{what}/explain"
        found: Explained = self._asked(
            lambda: self._http.get(path, Explained, level=EVERYTHING)
        )
        return found

    def waiting(self) -> dict[str, int]:
        path = f"{API}/explain/summary"
        return counts_of(self._asked(lambda: self._http.get(path, Summary)))


def counts_of(summary: Summary) -> dict[str, int]:
    return {each.code: each.tasks for each in summary.reasons}
