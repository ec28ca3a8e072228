"""What a doctor asks a server: the last check of everything, and how the disk is. A check can be
asked for; it is made beside the server, which goes on."""

import asyncio
from typing import Any

from holdfast.api.call import Answer, Call
from holdfast.coordinator.checker import Health
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.repairing import Examination, Repair, mend_files, mend_tasks, record
from holdfast.coordinator.room import Room
from holdfast.coordinator.views import rfc3339
from holdfast.wire.bodies import Repairs


async def show(call: Call) -> Answer:
    """How the last check of everything ended, and how much room the disk has."""
    served = call.service.served
    return Answer(
        {"schema": 1, "check": check_view(served.checker.last), "disk": disk_view(served.room)}
    )


async def check(call: Call) -> Answer:
    """Check everything that is there now, and say what was found."""
    checker = call.service.served.checker
    question = await call.ask(lambda _: checker.question())
    health = await asyncio.to_thread(checker.make, question)
    return Answer({"schema": 1, "check": check_view(health)})


async def repair(call: Call) -> Answer:
    """Mend what can be mended, and write down what was; a dry run says what that would be."""
    body: Repairs = call.body
    served, actor = call.service.served, call.identity.actor
    errand = Examination(str(served.log.path))
    found = await asyncio.to_thread(served.checker.desk.run, errand, list[Repair])
    if body.dry_run or not found:
        return Answer({"schema": 1, "repairs": [repair_view(each, each.deed) for each in found]})
    done = await asyncio.to_thread(mend_files, found)

    def mend(coordinator: Coordinator) -> list[tuple[Repair, str]]:
        mended = [*done, *mend_tasks(coordinator, found, actor, body.reason)]
        record(coordinator, mended, actor, body.reason)
        return mended

    mended = await call.ask(mend)
    if any(each.kind == "snapshot" for each, _ in mended):
        await asyncio.to_thread(served.snapshotter.make)
    return Answer({"schema": 1, "repairs": [repair_view(*each) for each in mended]})


def repair_view(found: Repair, deed: str) -> dict[str, Any]:
    return {
        "kind": found.kind, "subject": found.subject, "finding": found.finding, "deed": deed,
    }  # fmt: skip


def check_view(health: Health | None) -> dict[str, Any] | None:
    if health is None:
        return None
    return {
        "position": health.position,
        "watched_since": health.since,
        "at": rfc3339(health.at_wall),
        "seconds": health.seconds,
        "violations": list(health.violations),
    }


def disk_view(room: Room) -> dict[str, Any]:
    low, stop = room.marks
    return {
        "free": room.space.free,
        "total": room.space.total,
        "low": low,
        "stop": stop,
        "short": room.short or room.withholds() or "",
    }
