"""Repairs are written down as what they were."""

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.decision import Accepted, Decision, Reason, Refused
from holdfast.core.ids import Instant
from holdfast.core.state import State


def record_repair(state: State, command: c.RecordRepair, now: Instant) -> Decision:
    """A repair that did nothing is none."""
    if len(command.findings) != len(command.deeds):
        return Refused(Reason.INVALID, "every finding has what was done about it, and no other")
    if not command.deeds:
        return Accepted(())
    return Accepted((e.Repaired(findings=command.findings, deeds=command.deeds),))
