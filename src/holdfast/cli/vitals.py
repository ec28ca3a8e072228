"""What a doctor asks a server about itself: whether everything holds, and whether it has room."""

from collections.abc import Iterator
from typing import Final

from holdfast.cli.asking import Asker
from holdfast.cli.finding import BAD, POOR, Finding, good
from holdfast.cli.output import View
from holdfast.cli.spans import size
from holdfast.wire.http import Rejected

NO_ROUTE: Final = 404
SHORT: Final = {
    "disk_low": (POOR, "no more work is taken"),
    "disk_full": (BAD, "nothing is changed, and what runs may end"),
    "disk_slow": (POOR, "it is so slow that not all is taken"),
}
FREE: Final = "df -h"


def vitals(asker: Asker) -> Iterator[Finding]:
    """The last check of everything, and the disk under the log."""
    try:
        told = asker.get("doctor")
    except Rejected as no:
        if no.problem.status != NO_ROUTE:
            raise
        yield good("invariants", "this server is older than its checks")
        return
    yield _invariants(told.get("check"))
    yield _disk(told["disk"])


def _invariants(check: View | None) -> Finding:
    if check is None:
        return good("invariants", "not checked yet")
    where = f"up to position {check['position']}, at {check['at']}"
    if not check["violations"]:
        return good("invariants", f"all of them held {where}")
    count, first = len(check["violations"]), check["violations"][0]
    told = f"{count} things were wrong {where}, the first: {first}"
    return Finding("invariants", BAD, told, "holdfast doctor --repair --dry-run")


def _disk(disk: View) -> Finding:
    told = f"{size(disk['free'])} of {size(disk['total'])} are free"
    if not disk["short"]:
        return good("room", told)
    state, means = SHORT.get(disk["short"], (POOR, disk["short"]))
    return Finding("room", state, f"{told}, so {means}", FREE)
