"""One thing that a record did, as people see it."""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from holdfast.core.record import Record

Detail = str | int | bool | None
Details = dict[str, Detail]

LOG = "log"
"""The entity of what happens to the log itself."""


class Action(Struct, frozen=True):
    """One thing that was done, to one entity: `JOB`, `JOB/3`, `JOB/0-999`, a worker, the log."""

    action: str
    entity: str
    details: Details


Renderer = Callable[[Any, Record], Iterator[Action]]
