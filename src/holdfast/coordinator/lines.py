"""Every log line of a coordinator, by a name that stays: its level and its words.

The words are constant and what they are about stands in fields beside them, so that lines can be
counted and searched for. A program that reads them goes by `event`.
"""

import logging
from logging import DEBUG, ERROR, INFO, WARNING
from typing import Any, Final

from msgspec import Struct

logger = logging.getLogger("holdfast")


class Line(Struct, frozen=True):
    level: int
    message: str


LINES: Final[dict[str, Line]] = {
    "transition_refused": Line(ERROR, "a move was refused"),
    "lease_lost": Line(INFO, "a report came too late and was refused"),
    "repeat": Line(DEBUG, "a command came again and changed nothing"),
    "refusals_dropped": Line(WARNING, "more was refused than is noted"),
    "log_torn": Line(
        WARNING, "the end of the log was torn by a crash; it was never acknowledged and is cut"
    ),
    "log_recovered": Line(INFO, "the log was replayed"),
    "snapshot_rejected": Line(WARNING, "a snapshot was passed over"),
    "log_waits": Line(WARNING, "the disk is full; everything waits until there is room"),
    "disk_low": Line(WARNING, "the disk has little room left; no more work is taken"),
    "disk_full": Line(ERROR, "the disk is full; nothing is changed, and what runs may end"),
    "ballast_released": Line(WARNING, "the ballast was let go of, so that what runs can end"),
    "ballast_missing": Line(WARNING, "the ballast could not be taken"),
    "unneeded_removed": Line(INFO, "what no job refers to is removed"),
    "unneeded_unseen": Line(WARNING, "what nobody needs cannot be looked for"),
    "output_not_dropped": Line(WARNING, "output that is too old or too much cannot be dropped"),
    "output_not_ended": Line(WARNING, "a stream of output could not be ended"),
    "operation_cut_off": Line(ERROR, "an operation was cut off"),
    "stall_found": Line(WARNING, "something hangs"),
    "recovered": Line(INFO, "an attempt that hung was ended"),
    "runtime_unreadable": Line(ERROR, "a runtime was written by a version that knows more"),
    "deployment_unreadable": Line(ERROR, "a deployment was written by a version that knows more"),
    "invariant_violated": Line(ERROR, "what must hold does not"),
}


def say(event: str, **fields: Any) -> None:
    """Write a line, if lines of its level are wanted."""
    line = LINES[event]
    if logger.isEnabledFor(line.level):
        logger.log(line.level, line.message, extra={"event": event, **fields})


def is_said(event: str) -> bool:
    """Whether anybody wants lines of this kind: what goes into one may be dear to find out."""
    return logger.isEnabledFor(LINES[event].level)
