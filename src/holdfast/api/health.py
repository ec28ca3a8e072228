"""Whether the server is well, and which one it is."""

from typing import Any

from holdfast.api.call import Answer, Call
from holdfast.api.problems import Declined
from holdfast.coordinator.deliveries import owed_line
from holdfast.coordinator.stalls import stalls_line
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
        failed = call.service.served.snapshotter.last_error
        told["checks"] = {
            "log": "ok",
            "leaving": "no",
            "replay": "done",
            "snapshots": f"the last one failed: {failed}" if failed else "ok",
            "owed": owed_line(call.service.served.coordinator.state) or "nothing",
            "stalls": stalls_line(call.service.served.stalls) or "none",
        }
    return Answer(told)


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
