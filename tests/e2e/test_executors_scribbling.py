"""A task that writes into descriptors of its process harms itself and nobody else."""

from pathlib import Path

import pytest

import holdfast
from holdfast.errors import TaskFailed
from holdfast.testing import chores

PATIENCE_S = 60
LENGTH_OF_NOTHING = b"\xff\xff\xff\xff\x06"
NO_OUTCOME = b"\x05\x00\x00\x00\x06\xa5\xff\xff\xff\xff"
"""Heads of frames that no child sends: one that never ends, one with no outcome in it."""


@pytest.mark.parametrize("garbage", [LENGTH_OF_NOTHING, NO_OUTCOME, b"garbage" * 3])
def test_a_task_that_scribbles_fails_and_those_after_it_run(tmp_path: Path, garbage) -> None:
    with holdfast.open(tmp_path, executor="processes", workers=1, grace=1) as hf:
        handle = hf.submit(chores.scribble, garbage)
        with pytest.raises(TaskFailed, match="a descriptor that is not its own") as failed:
            handle.result(timeout=PATIENCE_S)
        assert failed.value.state == "QUARANTINED"
        assert list(hf.map(chores.square, range(5)).results()) == [0, 1, 4, 9, 16]
