"""Where durable records are read, whoever keeps them."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from holdfast.coordinator.inspect import Told


class Library(Struct, frozen=True):
    """Where durable records are read."""

    told: Callable[[int], Told]
    history: Callable[[int, int], Iterator[Told]]
