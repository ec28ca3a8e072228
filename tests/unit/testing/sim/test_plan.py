"""What a seed stands for, before anything runs."""

import re
from pathlib import Path

import msgspec

import holdfast
from holdfast.coordinator.points import POINTS
from holdfast.testing.sim.nemesis import BLOWS
from holdfast.testing.sim.plan import DECLARED, KINDS, PLAIN, SAFETY, drawn

SOURCES = Path(holdfast.__file__).parent


def test_every_kind_of_fault_can_be_carried_out() -> None:
    assert KINDS.keys() == BLOWS.keys()


def test_every_named_moment_is_in_the_code_and_in_the_table() -> None:
    found: set[str] = set()
    for room in ("coordinator", "wal"):
        for path in (SOURCES / room).glob("*.py"):
            found |= set(re.findall(r'\.reach\("([^"]+)"\)', path.read_text(encoding="utf-8")))
    assert found == POINTS.keys()


def test_a_fault_that_is_left_out_moves_no_other() -> None:
    whole = drawn(7, SAFETY)
    part = drawn(7, SAFETY, only=(3, 5))
    assert part.faults == (whole.faults[3], whole.faults[5])
    assert part.term_ms == whole.term_ms


def test_every_fault_is_in_the_plan_of_some_seed() -> None:
    met = {fault.kind for seed in range(12) for fault in drawn(seed, SAFETY).faults}
    assert met == KINDS.keys()


def test_a_plain_seed_has_the_cluster_and_the_faults_that_it_always_had() -> None:
    for seed in range(8):
        now, plain = drawn(seed), drawn(seed, age=PLAIN)
        assert (now.faults, now.workers) == (plain.faults, plain.workers)
        assert (plain.runtimes, plain.gangs, plain.schedules, plain.preempts) == (0, 0, 0, False)
        declared = drawn(seed, age=DECLARED)
        assert msgspec.structs.replace(now, preempts=False) == declared


def test_some_seeds_stand_for_runtimes_gangs_schedules_and_preemption_and_others_do_not() -> None:
    seeds = [drawn(seed) for seed in range(12)]
    for name in ("runtimes", "gangs", "schedules", "preempts"):
        assert {bool(getattr(seed, name)) for seed in seeds} == {False, True}
