"""Every kind of command there is, thrown at every stage a task can be in: it is accepted and keeps
the invariants, or refused with a code; and what records nothing changes nothing."""

from itertools import product
from random import Random

import pytest

from holdfast.core import commands as c
from holdfast.core.decide import decide
from holdfast.core.decision import Accepted, Reason, Refused
from holdfast.testing.stages import STAGES, stage_of
from holdfast.testing.strategies import MAKERS, command_of

KINDS = sorted(c.COMMAND_TYPES, key=lambda kind: kind.__name__)


def throw(name: str, kind: type[c.Command], dice: Random) -> None:
    """One command of this kind at this stage."""
    world = stage_of(name).world
    command = command_of(kind, world, dice)
    before = world.fingerprint()
    decision = decide(world.state, command, world.now)
    assert world.fingerprint() == before, "to decide is not to change"
    world.do(command)
    if isinstance(decision, Refused):
        assert decision.code in Reason
        assert decision.message
    if not isinstance(decision, Accepted) or not decision.events:
        assert world.fingerprint() == before
    assert world.troubles() == ()


def test_001_79_exhaustive_every_kind_of_command_can_be_thrown() -> None:
    assert set(KINDS) == set(MAKERS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_001_79_exhaustive_every_kind_of_command_meets_every_stage(kind, dice: Random) -> None:
    for name, _ in product(STAGES, range(5)):
        throw(name, kind, dice)
