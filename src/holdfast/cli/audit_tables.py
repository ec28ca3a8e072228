"""How lines of the audit trail are drawn."""

from collections.abc import Sequence

from holdfast.cli.output import Column, View, draw
from holdfast.cli.spans import clock

NOTHING = "-"
FORCE = "ForceTask"


def entries_table(views: Sequence[View], *, wide: bool) -> str:
    """Lines of the trail. What was refused is marked where a position would stand."""
    columns = [
        Column("POSITION", right=True),
        Column("TIME UTC"),
        Column("WHAT"),
        Column("MOVE"),
        Column("OPERATOR", elastic=True),
        Column("WHY", elastic=True),
    ]
    rows = [[*_begun(view, wide=wide), _subject(view), *_told(view)] for view in views]
    return draw(columns, rows)


def moves_table(views: Sequence[View], *, wide: bool) -> str:
    """The moves of one task, with the attempt each was made under."""
    columns = [
        Column("POSITION", right=True),
        Column("TIME UTC"),
        Column("MOVE"),
        Column("ATTEMPT", right=True),
        Column("LEASE", right=True),
        Column("WORKER", elastic=True),
        Column("OPERATOR", elastic=True),
        Column("WHY", elastic=True),
    ]
    rows = []
    granted: dict[object, View] = {}
    for view in views:
        about = view["metadata"]
        if "lease_id" in about:
            # What began under a lease names only that; the grant says whose it is.
            about = {**granted.get(about["lease_id"], {}), **about}
            granted[about["lease_id"]] = about
        attempt = [about.get(name, NOTHING) for name in ("attempt", "lease_id", "worker")]
        move, operator, why = _told(view)
        rows.append([*_begun(view, wide=wide), move, *attempt, operator, why])
    return draw(columns, rows)


def _begun(view: View, *, wide: bool) -> list[object]:
    position = "refused" if view["position"] is None else view["position"]
    return [position, view["at"] if wide else clock(view["at"])]


def _subject(view: View) -> str:
    return str(view["task_id"] or view["job_id"] or view["command"])


def _told(view: View) -> list[str]:
    move = f"{view['from']} → {view['to']}" if view["from"] and view["to"] else view["action"]
    if view["command"] == FORCE and view["position"] is not None:
        # A move by hand looks like any other otherwise.
        return [move, view["operator"], f"forced: {view['reason']}"]
    why = view["reason"] or ", ".join(view["metadata"].get("actions", ())[:3])
    return [move, view["operator"], why or NOTHING]
