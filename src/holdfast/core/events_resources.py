"""Facts about declared resources. What is inside is the declarer's; here it is bytes."""

from holdfast.core.event import Event
from holdfast.core.resource import Pairs


class ResourcePut(Event, frozen=True, kw_only=True):
    """Something was declared, or declared anew: its spec is this from here on. `generation` is one
    for the first, and one more for each that says something else."""

    kind: str
    name: str
    generation: int
    spec: bytes


class ResourceLabelled(Event, frozen=True, kw_only=True):
    """What it can be chosen by, and what is noted about it, is this from here on. Its spec and its
    generation stay as they are."""

    kind: str
    name: str
    labels: Pairs
    annotations: Pairs


class ResourceStatusPut(Event, frozen=True, kw_only=True):
    """How far the resource has come, as whoever brings it about tells it."""

    kind: str
    name: str
    status: bytes


class ResourceFinalizersSet(Event, frozen=True, kw_only=True):
    """These have something to clean up before the resource may go."""

    kind: str
    name: str
    finalizers: tuple[str, ...]


class ResourceDeletionMarked(Event, frozen=True, kw_only=True):
    """The resource shall go. It is declared no more, and stays until nobody has to clean up."""

    kind: str
    name: str


class ResourceRemoved(Event, frozen=True, kw_only=True):
    """Nobody had anything left to clean up: the resource is gone, and its name is free."""

    kind: str
    name: str
