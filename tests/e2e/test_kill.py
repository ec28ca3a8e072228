"""kill -9 of a real program under load: nothing acknowledged is lost, nothing commits twice."""

from pathlib import Path
from random import Random

import pytest

from holdfast.testing.killing import kill_until_done


@pytest.mark.parametrize(
    "executor", ["threads", pytest.param("processes", marks=pytest.mark.slow)]
)
def test_a_program_that_is_killed_five_times_loses_nothing(
    tmp_path: Path, dice: Random, executor: str
) -> None:
    tally = kill_until_done(tmp_path, dice, kills=5, executor=executor, count=100)
    assert tally.is_good, tally
    assert tally.committed == 125
    assert tally.kills >= 5


@pytest.mark.parametrize(
    "executor",
    [
        pytest.param("threads", marks=pytest.mark.slow),
        pytest.param("processes", marks=pytest.mark.soak),
    ],
)
def test_a_program_that_is_killed_a_hundred_times_loses_nothing(
    tmp_path: Path, dice: Random, executor: str
) -> None:
    tally = kill_until_done(tmp_path, dice, kills=100, executor=executor, count=400)
    assert tally.is_good, tally
    assert tally.committed == 500
    assert tally.kills >= 100
