"""SIGKILL before every system call that a log makes: nothing acknowledged is lost.

The program writes, rotates, has snapshots made and drops history, in a new folder and in one that
has a past. It is killed before its first such call, in another life before its second, and so on
until a life meets no such call any more. What each leaves must open, hold all that was promised,
tell the same story from a snapshot as from the whole log, and go on.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from holdfast.testing.scribe import Order
from holdfast.testing.scribes import Scribes
from holdfast.testing.syscalls import CALLS, Deaths

pytestmark = pytest.mark.needs("strace")

FRAMES = 45
SHARE = 15
SOAK_ROUNDS = 3


def with_a_past(scribes: Scribes, folder: Path, seed: object) -> Order:
    order = Order(
        str(folder / "past"), str(folder / "past.notes"), f"past {seed}", FRAMES, is_held=False
    )
    scribes.begin(order)
    assert scribes.end() == 0
    return order


@pytest.mark.slow
def test_a_program_killed_at_a_share_of_its_system_calls_loses_nothing(
    scribes: Scribes, tmp_path: Path, dice: Random, seed: int
) -> None:
    start = with_a_past(scribes, tmp_path, seed)
    killed = 0
    for begin in (None, start):
        deaths = Deaths(scribes, tmp_path, f"share {seed}", frames=FRAMES, start=begin)
        for call in CALLS:
            killed += deaths.at_every(call, first=dice.randint(1, SHARE), step=SHARE)
    assert killed > 25


@pytest.mark.soak
@pytest.mark.parametrize("call", CALLS)
def test_a_program_killed_at_every_system_call_loses_nothing(
    scribes: Scribes,
    tmp_path: Path,
    seed: int,
    call: str,
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    killed = 0
    for number in range(SOAK_ROUNDS):
        folder = tmp_path / str(number)
        folder.mkdir()
        start = with_a_past(scribes, folder, seed)
        for begin in (None, start):
            deaths = Deaths(
                scribes, folder, f"soak {seed} {number}", frames=FRAMES, start=begin
            )
            killed += deaths.at_every(call)
    record_testsuite_property(f"killed at {call}", killed)
    assert killed >= SOAK_ROUNDS
