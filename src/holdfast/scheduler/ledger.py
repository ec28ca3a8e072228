"""Bounds that hold across jobs: how many tasks of a namespace, a user or a key may run at once, and
how many may start in a span of time, and whether a function is given out at all."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from holdfast.core.shape import Shape

NAMESPACE = "namespace"
USER = "user"
KEY = "key"
CIRCUIT = "circuit"
"""An open one lets nothing start, a half-open one a single task or a single gang."""

Name = tuple[str, str]
"""What a bound is about: a scope, and a name in it."""


class Bound(Struct, frozen=True):
    """One bound at one moment. `left` may be below nothing: a bound can be lowered under what
    runs. `is_rate`: it bounds starts, and `most` is how many it allows in its span."""

    name: Name
    most: int
    left: int
    is_rate: bool = False


def names_of(shape: Shape) -> Iterator[Name]:
    """Everything of this shape that can be bounded."""
    yield NAMESPACE, shape.namespace
    if shape.user:
        yield USER, shape.user
    for key, _ in shape.keys:
        yield KEY, key
    if shape.circuit:
        yield CIRCUIT, shape.circuit


class Ledger:
    """`caps` bounds how many run; `tokens` says how many may start now. `held` has the slots of
    every worker by shape: whatever is bounded has one task a slot."""

    def __init__(
        self,
        caps: Mapping[Name, int],
        tokens: Mapping[Name, int],
        held: Mapping[Shape, int],
    ) -> None:
        self._caps = caps
        self._tokens = dict(tokens)
        self._used: dict[Name, int] = {}
        for shape, count in held.items():
            if shape.keys or caps:
                for name in names_of(shape):
                    self._used[name] = self._used.get(name, 0) + count

    def is_bounded(self, shape: Shape) -> bool:
        if shape.keys:
            return True
        if not self._caps and not self._tokens:
            return False
        return any(name in self._caps or name in self._tokens for name in names_of(shape))

    def bounds(self, shape: Shape) -> Iterator[Bound]:
        own = {(KEY, key): cap for key, cap in shape.keys if cap}
        for name in names_of(shape):
            caps = [cap for cap in (self._caps.get(name), own.get(name)) if cap is not None]
            if caps:
                yield Bound(name, min(caps), min(caps) - self._used.get(name, 0))
            tokens = self._tokens.get(name)
            if tokens is not None:
                # A gang is tried as a whole.
                is_whole = name[0] == CIRCUIT and shape.gang and tokens > 0
                yield Bound(name, tokens, UNBOUNDED if is_whole else tokens, is_rate=True)

    def room(self, shape: Shape) -> int:
        """How many more of a bounded shape may start."""
        left = [bound.left for bound in self.bounds(shape)]
        return max(0, min(left)) if left else UNBOUNDED

    def note(self, shape: Shape, count: int) -> None:
        """So many of a bounded shape are about to start."""
        for name in names_of(shape):
            self._used[name] = self._used.get(name, 0) + count
            if name in self._tokens:
                self._tokens[name] -= count


UNBOUNDED = 1 << 30
