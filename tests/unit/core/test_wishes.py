"""A wish that cannot be understood is refused in clear words, and nothing is recorded."""

from typing import Any

import msgspec
import pytest

from holdfast.core import commands as c
from holdfast.core.decision import Accepted, Reason, Refused
from holdfast.core.freeze import fingerprint, freeze, thaw
from holdfast.core.ids import JobId
from holdfast.core.placing import After, Constraint, Placing
from holdfast.core.spec import JobSpec
from holdfast.core.state import Limit
from holdfast.testing.world import World

SPEC = JobSpec(name="n", kind="k", target="t")


def constrained(*parts: Any, **more: Any) -> Placing:
    return Placing(constraints=(Constraint(*parts, **more),))


WRONG_PLACINGS: dict[str, tuple[Placing, str]] = {
    "an unknown operator": (constrained("zone", "near", ("eu",)), "unknown operator 'near'"),
    "no attribute": (constrained("", "exists"), "called ''"),
    "eq without a value": (constrained("zone", "eq"), "takes one value, not 0"),
    "ne of two values": (constrained("zone", "ne", ("a", "b")), "takes one value, not 2"),
    "in nothing": (constrained("zone", "in"), "takes at least one value"),
    "exists with a value": (constrained("zone", "exists", ("x",)), "takes no value"),
    "gt a word": (constrained("ram", "gt", ("much",)), "compares numbers; 'much' is none"),
    "le nothing at all": (constrained("ram", "le", ("nan",)), "compares numbers"),
    "ge without end": (constrained("ram", "ge", ("inf",)), "compares numbers"),
    "a weight too large": (constrained("a", "exists", weight=101), "weighs 1 to 100"),
    "a weight below zero": (constrained("a", "exists", weight=-1), "weighs 1 to 100"),
    "a negative amount": (Placing(resources=(("disk", -1),)), "-1 of resource 'disk'"),
    "an amount without end": (Placing(resources=(("disk", 10**16),)), "of resource 'disk'"),
    "a resource twice": (Placing(resources=(("d", 1), ("d", 2))), "'d' is named twice"),
    "a nameless resource": (Placing(resources=(("", 1),)), "a resource called ''"),
    "cpus by name": (Placing(resources=(("cpus", 1),)), "cpus has a field of its own"),
    "a key with a bad cap": (Placing(keys=(("db", -1),)), "-1 of key 'db'"),
    "a key twice": (Placing(keys=(("db", 1), ("db", 1))), "'db' is named twice"),
    "an unknown spread": (Placing(spread="sideways"), "unknown spread 'sideways'"),
    "gang_by without a gang": (Placing(gang_by="zone"), "without a gang"),
}
GOOD_PLACINGS = (
    constrained("zone", "in", ("a", "b"), weight=100),
    constrained("ram", "ge", ("1e3",)),
    constrained("disk", "exists"),
    Placing(resources=(("disk", 0), ("tape", 1_500)), keys=(("db", 0), ("api", 3))),
    Placing(spread="pack", preempts=True),
    Placing(gang=True, gang_by="rack"),
)


def refused(decision: object) -> tuple[Reason, str]:
    assert isinstance(decision, Refused)
    return decision.code, decision.message


@pytest.mark.parametrize("wrong", WRONG_PLACINGS)
def test_a_placing_that_makes_no_sense_is_refused(wrong: str) -> None:
    world = World()
    before = world.fingerprint()
    placing, words = WRONG_PLACINGS[wrong]
    code, message = refused(world.submit(spec=msgspec.structs.replace(SPEC, placing=placing)))
    assert code is Reason.INVALID
    assert words in message
    assert world.fingerprint() == before


@pytest.mark.parametrize("placing", GOOD_PLACINGS)
def test_a_placing_that_makes_sense_is_kept(placing: Placing) -> None:
    world = World()
    assert isinstance(
        world.submit("j", spec=msgspec.structs.replace(SPEC, placing=placing)), Accepted
    )
    assert thaw(freeze(world.state)).jobs[JobId("j")].spec.placing == placing


WRONG_TIES: dict[str, tuple[dict[str, Any], Reason, str]] = {
    "an unknown fate": ({"fate": "despair"}, Reason.INVALID, "unknown fate 'despair'"),
    "an unknown condition": (
        {"after": (After(JobId("p"), condition="luck"),)}, Reason.INVALID, "unknown condition",
    ),
    "a task before the first": ({"after": (After(JobId("p"), -2),)}, Reason.INVALID, "task -2"),
    "a task behind the last": ({"after": (After(JobId("p"), 1),)}, Reason.NOT_FOUND, "no task 1"),
    "too many": (
        {"after": tuple(After(JobId("p"), 0, "finish") for _ in range(1_001))},
        Reason.INVALID, "at most 1000",
    ),
    "itself": ({"after": (After(JobId("j")),)}, Reason.INVALID, "cannot come after itself"),
    "its own parent": ({"parent": JobId("j")}, Reason.INVALID, "its own parent"),
    "detached from nobody": ({"detached": True}, Reason.INVALID, "only a job with a parent"),
    "somebody unknown": ({"after": (After(JobId("x")),)}, Reason.NOT_FOUND, "no job x"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG_TIES)
def test_a_tie_that_makes_no_sense_is_refused(wrong: str) -> None:
    world = World()
    world.submit("p")
    before = world.fingerprint()
    ties, code, words = WRONG_TIES[wrong]
    told = refused(world.submit("j", **ties))
    assert told[0] is code
    assert words in told[1]
    assert world.fingerprint() == before


WRONG_LIMITS: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown scope": ({"scope": "galaxy", "running": 1}, "unknown scope 'galaxy'"),
    "no name": ({"scope": "user", "name": "", "running": 1}, "a user called ''"),
    "a negative amount": ({"scope": "user", "running": -1}, "running cannot be negative"),
    "starts in no time": ({"scope": "user", "starts": 5}, "say both, or neither"),
    "a time without starts": ({"scope": "user", "per_ms": 5}, "say both, or neither"),
    "a weight of zero": ({"scope": "namespace", "weight": 0}, "between 1 and 100"),
    "a weight too large": ({"scope": "namespace", "weight": 101}, "between 1 and 100"),
    "a user's weight": ({"scope": "user", "running": 1, "weight": 2}, "a user has no weight"),
    "nothing": ({"scope": "key"}, "a limit bounds something"),
    "a nameless amount": ({"scope": "key", "amounts": (("", 1),)}, "a resource called ''"),
    "less than nothing": ({"scope": "key", "amounts": (("cpus", -1),)}, "-1 of resource 'cpus'"),
    "twice": ({"scope": "key", "amounts": (("cpus", 1), ("cpus", 2))}, "named twice"),
}


@pytest.mark.parametrize("wrong", WRONG_LIMITS)
def test_a_limit_that_makes_no_sense_is_refused(wrong: str) -> None:
    world = World()
    before = world.fingerprint()
    fields, words = WRONG_LIMITS[wrong]
    code, message = refused(world.do(c.SetLimit(**{"name": "ann", **fields})))
    assert code is Reason.INVALID
    assert words in message
    assert world.fingerprint() == before


def test_what_a_limit_does_not_name_stays_as_it_was() -> None:
    world = World()
    team = {"scope": "namespace", "name": "team"}

    def now(**changes: object) -> Limit:
        world.did(c.SetLimit(**team, **changes))  # type: ignore[arg-type]
        return world.state.limits[("namespace", "team")]

    now(running=3, starts=10, per_ms=1_000, weight=2)
    assert now(running=4) == Limit(4, 10, 1_000, 2)
    assert now(amounts=(("cpus", 4_000), ("gpus", 2))).amounts == (("cpus", 4_000), ("gpus", 2))
    # Zero takes a bound away; the others stay.
    left = (("gpus", 2), ("licence", 1_000))
    assert now(amounts=(("cpus", 0), ("licence", 1_000))).amounts == left
    assert now(starts=0, per_ms=0) == Limit(4, 0, 0, 2, left)
    assert now(weight=5, replaces=True) == Limit(weight=5)
    assert fingerprint(world.replayed()) == world.fingerprint()


def test_a_limit_is_a_recorded_fact_until_it_is_cleared() -> None:
    world = World()
    limit = c.SetLimit(scope="key", name="db", running=3, starts=10, per_ms=1_000)
    assert world.do(limit).answer is True  # type: ignore[union-attr]
    assert world.do(limit).answer is False  # type: ignore[union-attr]
    world.did(c.SetLimit(scope="namespace", name="team", weight=7))
    expected = {("key", "db"): Limit(3, 10, 1_000, 1), ("namespace", "team"): Limit(0, 0, 0, 7)}
    assert world.state.limits == expected
    for snapshot in (False, True):
        world.crash(snapshot=snapshot)
        assert world.state.limits == expected
    world.did(c.SetLimit(scope="key", name="db", running=1, replaces=True))
    assert world.state.limits[("key", "db")] == Limit(1, 0, 0, 1)
    cleared = c.ClearLimit(scope="key", name="db")
    assert world.do(cleared).answer is True  # type: ignore[union-attr]
    assert world.do(cleared).answer is False  # type: ignore[union-attr]
    assert fingerprint(world.replayed()) == world.fingerprint()
