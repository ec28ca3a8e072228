"""Whether the server is well, and which one it is."""

from typing import Any, Final

from holdfast.api.call import Answer, Call
from holdfast.api.problems import Declined
from holdfast.coordinator.checker import Checker
from holdfast.coordinator.deliveries import owed_line
from holdfast.coordinator.stalls import stalls_line
from holdfast.core.lineage import suspended_line
from holdfast.version import VERSION


async def livez(call: Call) -> Answer:
    """The process answers."""
    return Answer({"status": "ok"})


async def readyz(call: Call) -> Answer:
    """Requests may come; `verbose` says what was looked at."""
    trouble = call.service.trouble()
    if trouble:
        raise Declined("not_ready", trouble, headers={"retry-after": "1"})
    told: dict[str, Any] = {"status": "ok"}
    if "verbose" in call.query:
        served = call.service.served
        failed = served.snapshotter.last_error
        told["checks"] = {
            "log": "ok",
            "suspended": suspended_line(served.coordinator.state.suspended) or "no",
            "leaving": "no",
            "replay": "done",
            "invariants": _invariants(served.checker),
            "disk": served.room.line(),
            "snapshots": f"the last one failed: {failed}" if failed else "ok",
            "owed": owed_line(served.coordinator.state) or "nothing",
            "stalls": stalls_line(served.stalls) or "none",
        }
    return Answer(told)


def _invariants(checker: Checker) -> str:
    """What the last check found, in few words: whoever may read is told more by `/doctor`."""
    if checker.last is None:
        return UNCHECKED
    names = dict.fromkeys(text.partition(" ")[0] for text in checker.violations)
    return f"{len(checker.violations)} violated: {', '.join(names)}" if names else "ok"


UNCHECKED: Final = "not checked yet"


async def version(call: Call) -> Answer:
    """Which Holdfast this is, and how far its log goes."""
    served = call.service.served

    def look(_: object) -> dict[str, Any]:
        return {
            "version": VERSION,
            "api": "v1",
            "log_id": served.log.log_id,
            "epoch": served.log.epoch,
            "position": int(served.coordinator.state.position),
        }

    return Answer(await call.ask(look))
