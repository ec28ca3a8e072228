"""Which errands the second process does, and who does each: the table behind the desk.

To add one: a frozen Struct with a tag of its own, a function from it to an answer that msgspec can
write as JSON, and a row here. Whoever gives it says `desk.run(errand, AnswerType)`.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.coordinator.checking import Check, check_folder
from holdfast.coordinator.questions import Asked, Compared, Exported, reply_to
from holdfast.coordinator.repairing import Examination, examine
from holdfast.coordinator.snapshotting import Course, make_snapshot

Errand = Course | Check | Examination | Asked | Compared | Exported

ERRANDS: Final[dict[type[Struct], Callable[[Any], object]]] = {
    Course: make_snapshot,
    Check: check_folder,
    Examination: examine,
    Asked: reply_to,
    Compared: reply_to,
    Exported: reply_to,
}


def do(given: bytes) -> bytes:
    """The answer to an errand, both as they travel between the processes."""
    errand = msgspec.json.decode(given, type=Errand)
    return msgspec.json.encode(ERRANDS[type(errand)](errand))
