"""Every stage is what it says, since all exhaustive tests stand on it."""

import pytest

from holdfast.core.job import state_of
from holdfast.core.task import TaskState
from holdfast.testing.stages import JOB, STAGES, stage_of


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_has_its_task_where_it_says_and_nothing_is_wrong(name: str) -> None:
    stage = stage_of(name)
    assert state_of(stage.world.state.jobs[JOB], 0) is stage.state
    assert stage.world.troubles() == ()


def test_the_stages_cover_every_state_of_a_task() -> None:
    assert {stage_of(name).state for name in STAGES} == set(TaskState)
