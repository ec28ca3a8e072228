"""Requests about repairs."""

from holdfast.core.command import Command


class RecordRepair(Command, frozen=True, kw_only=True):
    """Write down what was found wrong and what was done about it."""

    findings: tuple[str, ...]
    deeds: tuple[str, ...]


REPAIR_COMMANDS: tuple[type[Command], ...] = (RecordRepair,)
