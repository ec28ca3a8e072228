"""The health of the log in this program."""

from holdfast.client.health import DiskRoom, Health, LastCheck
from holdfast.coordinator.checker import Checker
from holdfast.coordinator.room import Room
from holdfast.coordinator.views import rfc3339


def local_health(checker: Checker, room: Room) -> Health:
    short = str(room.short or room.withholds() or "")
    disk = DiskRoom(room.space.free, room.space.total, *room.marks, short)
    last = checker.last
    if last is None:
        return Health(None, disk)
    told = list(last.violations)
    return Health(LastCheck(last.position, rfc3339(last.at_wall), last.seconds, told), disk)
