"""The three kinds of trouble.

Refused            no is an answer: a value inside, raised only at the edge (the client).
OperatingError     the world failed: retry or stop serving.
└── LogFailed      a write or sync failed: this coordinator acknowledges nothing more.
BrokenInvariant    we failed: stop, never repair by guessing.
└── ImpossibleEvent
"""


class OperatingError(Exception):
    """The world outside failed: a disk, a network, another program."""


class LogFailed(OperatingError):
    """The log could not be written. What was acknowledged is safe; open again to go on."""


class BrokenInvariant(Exception):
    """Something that cannot be true is: a bug, or history that was tampered with."""


class ImpossibleEvent(BrokenInvariant):
    """An event met a state, or a lease, that cannot take it."""

    def __init__(self, subject: str, state: str, event: object) -> None:
        super().__init__(f"{subject} is {state}; it cannot take {type(event).__name__}")
