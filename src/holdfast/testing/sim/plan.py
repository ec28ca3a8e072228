"""What a seed stands for: how large the cluster is, what is asked of it, and what goes wrong when.

Everything is drawn before the run begins. A fault is a line of a list with a number of its own, so
that a run can be repeated with some of them left out and the others where they were.
"""

from collections.abc import Iterable
from random import Random
from typing import Final

from msgspec import Struct

from holdfast.coordinator.placement import MOST_PICKS
from holdfast.coordinator.points import POINTS

SAFETY, LIVENESS = "safety", "liveness"
MODES: Final = (SAFETY, LIVENESS)
TERMS_MS: Final = (1_000, 3_000, 10_000, 15_000, 30_000)
WILD_MS: Final = (30_000, 60_000, 120_000, 240_000, 600_000, 1_200_000)
"""How long a storm lasts: six minutes on average."""
RUNTIMES: Final = 0.35
"""The share of seeds in which somebody declares runtimes."""
GANGS: Final = 0.25
SCHEDULES: Final = 0.2
PREEMPTION: Final = 0.25
"""The shares in which there are gangs, schedules, and jobs for which others make room."""
PLAIN, DECLARED, URGENT = range(3)
"""What seeds came to stand for: tasks alone at first; then runtimes, gangs and schedules too; then
jobs for which others make room."""
RUNTIME_ROOM: Final = 16
"""So many replicas of one runtime may there be at once."""


class Fault(Struct, frozen=True):
    """From `at_ms` on something is wrong, for `ms` where it lasts. `who` chooses among those it
    may happen to, `share` how much of it there is, `point` where."""

    number: int
    at_ms: int
    kind: str
    who: int
    ms: int
    share: float
    point: str = ""


class Kind(Struct, frozen=True):
    """What may go wrong: how long it lasts at least and at most, and how often it is drawn."""

    shortest_ms: int
    longest_ms: int
    weight: float = 1.0


KINDS: Final = {
    # The network, between everybody or between one and the server.
    "lose": Kind(2_000, 30_000),
    "double": Kind(2_000, 30_000),
    "delay": Kind(2_000, 30_000),
    "reset": Kind(2_000, 30_000),
    "cut": Kind(500, 40_000),
    "cut_to_server": Kind(500, 40_000),
    "cut_from_server": Kind(500, 40_000),
    # Workers.
    "kill_worker": Kind(0, 20_000),
    "freeze_worker": Kind(500, 40_000),
    "drain_worker": Kind(0, 20_000),
    # The coordinator and its machine.
    "kill_server": Kind(0, 4_000),
    "power": Kind(0, 8_000),
    "outage": Kind(20_000, 90_000, 0.3),
    "freeze_server": Kind(200, 40_000),
    "retire_server": Kind(0, 2_000),
    "second_server": Kind(0, 0),
    "set_wall": Kind(0, 0),
    # The disk.
    "slow_disk": Kind(2_000, 30_000),
    "stuck_disk": Kind(1_000, 30_000),
    "full_disk": Kind(1_000, 20_000),
    "short_writes": Kind(1_000, 30_000),
    "sync_fails": Kind(0, 5_000),
    "rot": Kind(0, 0),
    "kill_in_disk": Kind(0, 3_000),
    "power_in_disk": Kind(0, 3_000),
    # A named moment in the coordinator's own code.
    "kill_at_point": Kind(0, 3_000),
    "power_at_point": Kind(0, 3_000),
}


class Scenario(Struct, frozen=True):
    """One cluster and its life. `kinds` are the faults this seed knows; most know only some, since
    what hides behind a storm is found in a breeze. `wild_ms` is how long they go on. `runtimes`
    and `schedules` are how many somebody keeps, `gangs` how large a gang may be. With `preempts`
    others make room for some jobs."""

    seed: int
    mode: str
    wild_ms: int
    workers: int
    slots: int
    clients: int
    jobs: int
    term_ms: int
    segment_bytes: int
    snapshot_bytes: int
    history_bytes: int | None
    most_picks: int
    delay_us: tuple[int, int]
    sync_us: tuple[int, int]
    drift_ppm: int
    failing: float
    longest_ms: int
    owing: bool
    runtimes: int
    gangs: int
    schedules: int
    preempts: bool
    kinds: tuple[str, ...]
    faults: tuple[Fault, ...]


def drawn(
    seed: int, mode: str = SAFETY, only: Iterable[int] | None = None, *, age: int = URGENT
) -> Scenario:
    """The scenario of a seed; with `only`, of its faults those with these numbers; an earlier `age`
    is without what seeds came to stand for later, which changes what happens around their faults.
    """
    dice = Random(f"plan:{mode}:{seed}")
    wild_ms = dice.choice(WILD_MS)
    kinds = tuple(kind for kind in KINDS if dice.random() < dice.choice((0.15, 0.4, 0.8)))
    faults = _faults(dice, kinds, wild_ms)
    if only is not None:
        wanted = set(only)
        faults = [fault for fault in faults if fault.number in wanted]
    term_ms = dice.choice(TERMS_MS)
    delay_us = dice.choice(((50, 500), (200, 5_000), (1_000, 60_000)))
    workers, slots = dice.choice((1, 2, 3, 3, 3, 5, 8, 20)), dice.choice((1, 1, 2, 4))
    # Drawn apart: a seed has the same cluster and the same faults with it and without.
    more = Random(f"repertoire:{mode}:{seed}")
    runtimes = more.choice((1, 1, 2)) if more.random() < RUNTIMES and age >= DECLARED else 0
    is_gangs, schedules = more.random() < GANGS, more.choice((1, 2))
    gangs = min(3, workers * slots) if is_gangs and age >= DECLARED else 0
    if more.random() >= SCHEDULES or age < DECLARED:
        schedules = 0
    preempts = more.random() < PREEMPTION and age >= URGENT
    if runtimes:
        # Services keep their slots, and those of one template keep to one worker: wherever it is,
        # there is room for all of them, and for everybody else.
        slots += runtimes * RUNTIME_ROOM
    return Scenario(
        seed=seed,
        mode=mode,
        wild_ms=wild_ms,
        workers=workers,
        slots=slots,
        clients=dice.choice((1, 2, 2, 4)),
        jobs=dice.choice((4, 8, 16)),
        term_ms=term_ms,
        segment_bytes=dice.choice((8_192, 16_384, 65_536)),
        snapshot_bytes=dice.choice((8_192, 32_768, 131_072)),
        history_bytes=dice.choice((0, 8_192, 65_536, None)),
        most_picks=dice.choice((MOST_PICKS, MOST_PICKS, 1, 3)),
        delay_us=delay_us,
        sync_us=dice.choice(((50, 500), (500, 20_000), (5_000, 100_000))),
        drift_ppm=dice.choice((0, 50, 200)),
        failing=dice.choice((0.0, 0.05, 0.2)),
        longest_ms=dice.choice((20, 500, 4_000, 20_000)),
        owing=dice.random() < 0.4,
        runtimes=runtimes,
        gangs=gangs,
        schedules=schedules,
        preempts=preempts,
        kinds=kinds,
        faults=tuple(faults),
    )


def _faults(dice: Random, kinds: tuple[str, ...], wild_ms: int) -> list[Fault]:
    drawn: list[tuple[int, str]] = []
    for kind in kinds:
        gap_ms = dice.choice((5_000, 15_000, 60_000)) / KINDS[kind].weight
        at = dice.expovariate(1 / gap_ms)
        while at < wild_ms:
            drawn.append((int(at), kind))
            at += dice.expovariate(1 / gap_ms)
    return [_fault(dice, wild_ms, number, *each) for number, each in enumerate(sorted(drawn))]


def _fault(dice: Random, wild_ms: int, number: int, at_ms: int, kind: str) -> Fault:
    spans = KINDS[kind]
    ms = dice.randint(spans.shortest_ms, spans.longest_ms)
    if dice.random() < 0.5:
        # Short ones more often than long ones: most of what happens in a cluster is brief.
        ms = dice.randint(spans.shortest_ms, max(spans.shortest_ms, ms // 10))
    point = dice.choice(list(POINTS)) if kind.endswith("_at_point") else ""
    share = dice.choice((0.05, 0.2, 0.5))
    # Whatever lasts is over when the storm is.
    ms = min(ms, wild_ms - at_ms)
    return Fault(number, at_ms, kind, dice.randrange(1 << 30), ms, share, point)
