"""The log itself: which it is, where it comes from, whether it works."""

import asyncio
from typing import Any

import msgspec

from holdfast.api.call import Answer, Call
from holdfast.api.problems import Declined
from holdfast.coordinator.compacting import compact
from holdfast.core import commands as c
from holdfast.core.state import State
from holdfast.wire.bodies import Reason


async def show(call: Call) -> Answer:
    """Which log is served, how far it goes, and which it was forked from."""
    log = call.service.served.log

    def look(state: State) -> dict[str, Any]:
        return {
            "log_id": state.log_id,
            "position": int(state.position),
            "oldest": log.oldest,
            "epoch": state.epoch,
            "snapshot_position": int(state.snapshot_position),
            "suspended": state.suspended or None,
            "lineage": [
                {"log_id": ancestor.log_id, "until": int(ancestor.until)}
                for ancestor in state.lineage
            ],
        }

    return Answer({"schema": 1, **await call.look(look)})


async def compacted(call: Call) -> Answer:
    """Make a snapshot now, and drop the history that it and the settings allow to go."""
    served = call.service.served
    made = await asyncio.to_thread(
        compact, served.snapshotter, served.log, served.log.path, served.snapshotter.settings
    )
    if made is None:
        raise Declined("conflict", f"no snapshot was made: {served.snapshotter.last_error}")
    return Answer({"schema": 1, **msgspec.structs.asdict(made)})


async def resume(call: Call) -> Answer:
    """Let a forked or salvaged log work."""
    body: Reason = call.body
    was = await call.look(lambda state: state.suspended)
    await call.execute(c.ResumeLog(**call.keying()), reason=body.reason)
    return Answer({"was": was or None})
