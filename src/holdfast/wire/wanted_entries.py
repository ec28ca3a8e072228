"""Which lines of the audit trail a list is about: for whoever asks a server and for whoever looks
through them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

VALIDATED: Final = "validated"
REFUSED: Final = "refused"
"""How a line stands: it became true, or it did not."""


class WantedEntries(Struct, frozen=True, kw_only=True):
    """Which lines are asked for; what is empty is not asked about. `index` below zero: any task.
    `since` and `until` are of the wall clock, in milliseconds; `first` and `last` are positions.
    `refused`: only what was refused."""

    operator: str = ""
    command: str = ""
    job_id: str = ""
    index: int = -1
    since: int = 0
    until: int = 0
    first: int = 0
    last: int = 0
    refused: bool = False

    def takes_time(self, wall: int) -> bool:
        return self.since <= wall and (not self.until or wall <= self.until)

    def takes(self, entry: Mapping[str, Any]) -> bool:
        if self.operator and entry["operator"] != self.operator:
            return False
        if self.command and self.command not in (entry["command"], entry["action"]):
            return False
        if self.job_id and entry["job_id"] != self.job_id:
            return False
        return self.index < 0 or _is_of(entry, self.index)


def _is_of(entry: Mapping[str, Any], index: int) -> bool:
    """Whether a line is about a task: by its name, by a range, or about its whole job."""
    name = entry["task_id"]
    if name is None:
        return bool(entry["status"] == VALIDATED)
    first, _, last = name.rpartition("/")[2].partition("-")
    return int(first) <= index <= int(last or first)


def query_of(wanted: WantedEntries) -> dict[str, str]:
    """The same as a server is asked for it."""
    is_task = wanted.index >= 0
    return {
        "operator": wanted.operator,
        "command": wanted.command,
        "job": "" if is_task else wanted.job_id,
        "task": f"{wanted.job_id}/{wanted.index}" if is_task else "",
        "since": _moment(wanted.first, wanted.since),
        "until": _moment(wanted.last, wanted.until),
        "refused": "true" if wanted.refused else "",
    }


def _moment(position: int, wall: int) -> str:
    if position or not wall:
        return str(position or "")
    moment = datetime.fromtimestamp(wall / 1_000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
