"""Bounds that hold across jobs: how many tasks of a namespace, a user or a key may run at once, how
much they may take together, how many may start in a span of time, and
whether a function is given out at all."""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from msgspec import Struct

from holdfast.core.shape import REMEMBERED, Shape

NAMESPACE = "namespace"
USER = "user"
KEY = "key"
CIRCUIT = "circuit"
"""An open one lets nothing start, a half-open one a single task or a single gang."""

TASKS = ""
"""What a bound counts where it counts no resource: no resource has this name."""

Name = tuple[str, str]
"""What a bound is about: a scope, and a name in it."""


class Bound(Struct, frozen=True):
    """One bound at one moment, as one shape meets it: there is `most` of a `resource`, `left` of
    it is not taken, and each task needs `need`. `left` may be below nothing: a bound can be
    lowered under what runs. `is_rate`: it bounds starts, and `most` is how many it allows in its
    span."""

    name: Name
    most: int
    left: int
    is_rate: bool = False
    resource: str = TASKS
    need: int = 1

    @property
    def room(self) -> int:
        """How many more tasks it lets start."""
        return self.left // self.need


def names_of(shape: Shape) -> Iterator[Name]:
    """Everything of this shape that can be bounded."""
    yield NAMESPACE, shape.namespace
    if shape.user:
        yield USER, shape.user
    for key, _ in shape.keys:
        yield KEY, key
    if shape.circuit:
        yield CIRCUIT, shape.circuit


@lru_cache(maxsize=REMEMBERED)
def needs_of(shape: Shape) -> Mapping[str, int]:
    """What one task of this shape takes of everything that can be bounded."""
    return {
        TASKS: 1,
        "cpus": shape.cpus_milli,
        "memory": shape.memory_bytes,
        "gpus": shape.gpus,
        **dict(shape.resources),
    }


class Ledger:
    """`caps` bounds how many run, `amounts` how much they take together; `tokens` says how many
    may start now. `held` has the slots of every worker by shape: whatever is bounded has one task
    a slot."""

    def __init__(
        self,
        caps: Mapping[Name, int],
        tokens: Mapping[Name, int],
        held: Mapping[Shape, int],
        amounts: Mapping[Name, Mapping[str, int]] | None = None,
    ) -> None:
        self._caps: dict[Name, dict[str, int]] = {name: {TASKS: cap} for name, cap in caps.items()}
        for name, most in (amounts or {}).items():
            self._caps.setdefault(name, {}).update(most)
        self._tokens = dict(tokens)
        self._used: dict[tuple[Name, str], int] = {}
        for shape, count in held.items():
            if shape.keys or self._caps:
                self._take(shape, count)

    def is_bounded(self, shape: Shape) -> bool:
        if shape.keys:
            return True
        if not self._caps and not self._tokens:
            return False
        needs = needs_of(shape)
        return any(
            name in self._tokens or any(needs.get(each) for each in self._caps.get(name, ()))
            for name in names_of(shape)
        )

    def bounds(self, shape: Shape) -> Iterator[Bound]:
        own = {(KEY, key): cap for key, cap in shape.keys if cap}
        needs = needs_of(shape)
        for name in names_of(shape):
            caps = dict(self._caps.get(name, {}))
            if name in own:
                caps[TASKS] = min(own[name], caps.get(TASKS, own[name]))
            for resource, most in caps.items():
                need = needs.get(resource, 0)
                if need:
                    left = most - self._used.get((name, resource), 0)
                    yield Bound(name, most, left, resource=resource, need=need)
            tokens = self._tokens.get(name)
            if tokens is not None:
                # A gang is tried as a whole.
                is_whole = name[0] == CIRCUIT and shape.gang and tokens > 0
                yield Bound(name, tokens, UNBOUNDED if is_whole else tokens, is_rate=True)

    def room(self, shape: Shape) -> int:
        """How many more of a bounded shape may start."""
        rooms = [bound.room for bound in self.bounds(shape)]
        return max(0, min(rooms)) if rooms else UNBOUNDED

    def note(self, shape: Shape, count: int) -> None:
        """So many of a bounded shape are about to start."""
        self._take(shape, count)
        for name in names_of(shape):
            if name in self._tokens:
                self._tokens[name] -= count

    def _take(self, shape: Shape, count: int) -> None:
        needs = needs_of(shape)
        for name in names_of(shape):
            for resource in dict.fromkeys((TASKS, *self._caps.get(name, ()))):
                taken = needs.get(resource, 0) * count
                self._used[name, resource] = self._used.get((name, resource), 0) + taken


UNBOUNDED = 1 << 30
