"""Power cuts of real file systems: whatever was acknowledged is there when they are mounted again.

The writer is stopped first, and the cut comes when nothing of it is under way any more: a process
that outlives the cut could be told that a sync went well which nobody will ever see.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from holdfast.testing.cuts import PowerCuts
from holdfast.testing.mounts import KINDS, NEEDS, Mounted
from holdfast.testing.scribes import Scribes

pytestmark = pytest.mark.needs(*NEEDS)

SHARE = 40
SOAK_CUTS = 1_000
CONTROL_CUTS = 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_power_cut_loses_nothing_acknowledged(
    scribes: Scribes, tmp_path: Path, dice: Random, kind: str
) -> None:
    with Mounted(tmp_path, kind) as mounted:
        cuts = PowerCuts(mounted, scribes, tmp_path / "notes", dice)
        for _ in range(SHARE):
            cuts.cut()
    assert cuts.toll.promises > SHARE


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_writer_that_does_not_sync_loses_to_a_power_cut(
    scribes: Scribes, tmp_path: Path, dice: Random, kind: str
) -> None:
    """The control: without it nobody knows whether these cuts take anything away."""
    with Mounted(tmp_path, kind) as mounted:
        cuts = PowerCuts(mounted, scribes, tmp_path / "notes", dice)
        for _ in range(CONTROL_CUTS):
            cuts.cut_without_syncs()
    assert cuts.toll.promises > CONTROL_CUTS
    assert cuts.toll.lost > cuts.toll.promises / 2


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_power_cuts_lose_nothing_acknowledged(
    scribes: Scribes,
    tmp_path: Path,
    dice: Random,
    kind: str,
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    with Mounted(tmp_path, kind) as mounted:
        cuts = PowerCuts(mounted, scribes, tmp_path / "notes", dice)
        for _ in range(SOAK_CUTS):
            cuts.cut()
    record_testsuite_property(f"power cuts of {kind}", repr(cuts.toll))
