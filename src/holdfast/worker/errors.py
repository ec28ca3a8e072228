"""What a task may meet when it speaks with whoever runs it.

NotInTask              nothing here is a task, or not one that can do this
CannotPromise          what a commit cannot take along; nothing of it was taken
├── UnknownSink
├── EffectTooLarge
└── DuplicateEffect
LeaseLost              the attempt may not commit: another one has the task, or has committed it
"""

from collections.abc import Iterable


class NotInTask(RuntimeError):
    """Code that is no task's asked for the task it belongs to, or a command for what only a
    function has."""


class CannotPromise(ValueError):
    """Something that cannot be part of this task's commit."""


class UnknownSink(CannotPromise):
    """An effect for a sink that nobody has defined."""

    def __init__(self, sink: str, known: Iterable[str]) -> None:
        names = ", ".join(sorted(known))
        there = f"there are {names}" if names else "there are none"
        super().__init__(
            f"there is no sink {sink!r}; {there}. Define it as [sinks.{sink}] in the settings of "
            "the server, or with holdfast.open(sinks=...)."
        )


class EffectTooLarge(CannotPromise):
    """The body of an effect is larger than a record should be."""


class DuplicateEffect(CannotPromise):
    """Two effects of one task for the same sink under the same key."""


class LeaseLost(Exception):
    """The commit was not accepted, and what should have come after it must not be done."""
