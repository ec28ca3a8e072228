"""Requests about circuits: a person opens or closes one."""

from holdfast.core.command import Command


class OpenCircuit(Command, frozen=True, kw_only=True):
    """Give nothing more out for this function or sink until somebody closes its circuit."""

    kind: str
    name: str
    reason: str = ""


class CloseCircuit(Command, frozen=True, kw_only=True):
    """Give everything out again, and forget the failures."""

    kind: str
    name: str
    reason: str = ""


CIRCUIT_COMMANDS: tuple[type[Command], ...] = (OpenCircuit, CloseCircuit)
