"""Facts about repairs: what a person had mended, and what was found before."""

from holdfast.core.event import Event


class Repaired(Event, frozen=True, kw_only=True):
    """Somebody had a folder repaired: what was found, and what was done about each, in words. What
    was done to tasks is told by the records before this one."""

    findings: tuple[str, ...]
    deeds: tuple[str, ...]
