"""A client that declares class runtimes: applies, changes, scales, spoils, mends, deletes them."""

from random import Random
from typing import Final

from msgspec import structs

from holdfast.coordinator.runtimes import declaring, deleting
from holdfast.runtimes.manifest import ClassRuntime
from holdfast.runtimes.spec import (
    Analyzer,
    Check,
    Function,
    Health,
    Nfr,
    Odgm,
    Restarts,
    Rollout,
    Spec,
    StaticAnalyzer,
    Timeouts,
)
from holdfast.runtimes.written import Portion, Share, Span
from holdfast.testing.sim.client import APPLY, DELETE, LOOK_AT, Client
from holdfast.testing.sim.programs import BEHAVIOURS, SERVE
from holdfast.testing.sim.server import Asked

KEYS: Final = ("a", "b", "c")
TEMPLATES: Final = ("dev", "edge")
PAUSE_S: Final = 15.0


class Declarer(Client):
    """It remembers what it declared last, as a person with a file does."""

    specs: dict[str, Spec]
    versions: dict[str, int]

    async def _live(self) -> None:
        self.specs, self.versions = {}, {}
        names = [f"r{number}" for number in range(self._scenario.runtimes)]
        for name in names:
            await self._apply(name, a_runtime(self._dice))
            await self._sleep(self._dice.expovariate(1 / PAUSE_S))
        for _ in range(self._dice.randrange(3, 10)):
            await self._change(self._dice.choice(names))
            await self._sleep(self._dice.expovariate(1 / PAUSE_S))
            await self._look_at(self._dice.choice(names))
        self.is_over = True

    async def _change(self, name: str) -> None:
        throw = self._dice.random()
        known = self.specs.get(name)
        if known is None or throw < 0.3:
            await self._apply(name, a_runtime(self._dice))
        elif throw < 0.5:
            await self._apply(name, scaled(known, self._dice))
        elif throw < 0.6:
            # The same once more: nothing may come of it.
            await self._apply(name, known)
        elif throw < 0.7:
            # By somebody who read it a while ago.
            stale = self.versions.get(name, 0) - self._dice.randrange(2)
            await self._apply(name, a_runtime(self._dice), max(0, stale))
        elif throw < 0.85:
            await self._delete(name)
        else:
            await self._delete(name)
            await self._sleep(self._dice.random())
            await self._apply(name, a_runtime(self._dice))

    async def _apply(self, name: str, spec: Spec, expects: int | None = None) -> None:
        runtime = ClassRuntime(name=name, spec=spec, expects=expects)
        told = await self._ask(APPLY, name, declaring(runtime))
        if not told.code:
            self.specs[name] = spec
            self.versions[name] = int(told.answer or 0)

    async def _delete(self, name: str) -> None:
        told = await self._ask(DELETE, name, deleting(name))
        if not told.code:
            self.specs.pop(name, None)

    async def _look_at(self, name: str) -> None:
        await self._ask_with(LOOK_AT, name, None, Asked("", runtime=name))


def a_runtime(dice: Random) -> Spec:
    """One of four will never come up."""
    keys = KEYS[: dice.choice((1, 1, 2, 3))]
    spoilt = dice.choice(keys) if dice.random() < 0.25 else ""
    odgm = None
    if dice.random() < 0.3:
        odgm = Odgm(
            command=(SERVE,), replicas=dice.choice((1, 3)), restarts=restarts(dice),
            grace=grace(dice), partitions=dice.choice((1, 4)),
        )  # fmt: skip
    return Spec(
        template=dice.choice(TEMPLATES),
        functions=tuple(a_function(dice, key, is_spoilt=key == spoilt) for key in keys),
        odgm=odgm,
        nfr=requirements(dice),
        timeouts=Timeouts(progress=Span(dice.choice((15_000, 30_000))), delete=Span(10_000)),
    )


def a_function(dice: Random, key: str, *, is_spoilt: bool) -> Function:
    does = dice.choice(BEHAVIOURS[1:]) if is_spoilt else SERVE
    return Function(
        key=key,
        command=(does, str(dice.randrange(3))),
        replicas=max(int(is_spoilt), dice.choice((0, 1, 1, 2, 3))),
        ports=dice.choice((("http",), ("http", "admin"))),
        health=health(dice),
        rollout=dice.choice(
            (
                Rollout(),
                Rollout(surge=Portion(0), unavailable=Portion(1)),
                Rollout(surge=Portion(-25), unavailable=Portion(-25)),
                Rollout(steps=(Share(50), Share(100)), pause=Span(2_000)),
            )
        ),
        grace=grace(dice),
        restarts=restarts(dice),
    )


def health(dice: Random) -> Health | None:
    if dice.random() < 0.5:
        return None
    # Long enough that what comes up late is not ended for that alone.
    return Health(
        path="/", period=Span(1_000), timeout=Span(300), failures=6,
        start=dice.choice((None, Check())), live=dice.choice((None, Check())),
    )  # fmt: skip


def grace(dice: Random) -> Span:
    return Span(dice.choice((0, 500, 3_000)))


def restarts(dice: Random) -> Restarts:
    most, refill_ms = dice.choice(((2, 10_000), (5, 2_000)))
    return Restarts(
        max=most, refill=Span(refill_ms), delay=Span(200), max_delay=Span(2_000),
        steady=Span(dice.choice((2_000, 10_000))),
    )  # fmt: skip


def requirements(dice: Random) -> Nfr:
    """Some are held at a size that somebody recommends."""
    if dice.random() < 0.8:
        return Nfr()
    static = StaticAnalyzer(replicas=dice.choice((1, 3)))
    return Nfr(
        mode=dice.choice(("observe", "enforce")), max_replicas=3, stability=Span(1_000),
        cooldown=Span(1_000), analyzer=Analyzer(static=static),
    )  # fmt: skip


def scaled(spec: Spec, dice: Random) -> Spec:
    functions = tuple(
        structs.replace(function, replicas=dice.choice((1, 2, 3))) for function in spec.functions
    )
    return structs.replace(spec, functions=functions)
