"""The loop over ports that a test holds in its hand: late answers, conflicts, failed listings."""

from collections.abc import Callable, Iterable, Mapping

import pytest
from msgspec.structs import replace

from holdfast.core.ids import Instant
from holdfast.runtimes.actions import ApplyWorkload, DeleteChildren, DeleteOrphans, EmitEvent
from holdfast.runtimes.actions import Enforce as EnforceDeed
from holdfast.runtimes.loop import Reconciler
from holdfast.runtimes.manifest import ClassRuntime, decode
from holdfast.runtimes.observed import Child, Known, ManagedKind, Observed, Unknown
from holdfast.runtimes.passing import Pass
from holdfast.runtimes.ports import DONE, Deed, Outcome
from holdfast.runtimes.resource import Resource
from holdfast.runtimes.status import (
    ApplyCode,
    ConditionType,
    Phase,
    Recommendation,
    Router,
    Status,
    condition_of,
)
from holdfast.testing.clock import ManualClock
from holdfast.testing.hosted import function, manifest

KINDS = (
    ManagedKind.DEPLOYMENT,
    ManagedKind.SERVICE,
    ManagedKind.ODGM_DEPLOYMENT,
    ManagedKind.ODGM_SERVICE,
)


class Shelf:
    """A store in memory. `meddles` is called before a write: whoever else writes then is first."""

    def __init__(self) -> None:
        self.kept: dict[str, Resource] = {}
        self.writes = 0
        self.events: list[str] = []
        self.meddles: Callable[[], None] | None = None

    def declare(self, content: dict[str, object]) -> None:
        declared = decode(content)
        assert isinstance(declared, ClassRuntime), declared
        known = self.kept.get(declared.name)
        resource = Resource(
            name=declared.name,
            generation=1,
            version=1,
            created_at=Instant(1),
            spec=declared.spec,
        )
        if known is not None:
            resource = replace(
                known,
                generation=known.generation + 1,
                version=known.version + 1,
                spec=declared.spec,
            )
        self.kept[declared.name] = resource

    def names(self) -> Iterable[str]:
        return tuple(self.kept)

    def read(self, name: str) -> Resource | None:
        return self.kept.get(name)

    def put_status(
        self, name: str, status: Status, expects: int, told: Callable[[bool], None]
    ) -> None:
        self._meddle()
        known = self.kept[name]
        if known.version != expects:
            told(False)
            return
        self.writes += 1
        self.kept[name] = replace(known, status=status, version=known.version + 1)
        told(True)

    def set_finalizers(
        self, name: str, finalizers: tuple[str, ...], expects: int, told: Callable[[bool], None]
    ) -> None:
        known = self.kept[name]
        if known.version != expects:
            told(False)
            return
        self.kept[name] = replace(known, finalizers=finalizers, version=known.version + 1)
        if known.deleted_at is not None and not finalizers:
            del self.kept[name]
        told(True)

    def emit(self, name: str, event: EmitEvent, now: Instant) -> None:
        self.events.append(event.reason)

    def _meddle(self) -> None:
        if self.meddles is not None:
            meddles, self.meddles = self.meddles, None
            meddles()


class Ground:
    """Children that are there when they were applied. What is `late` is answered when a test says
    so; `outcomes` are those of the next deeds; `lost` kinds cannot be listed."""

    def __init__(self) -> None:
        self.children: dict[str, Child] = {}
        self.deeds: list[Deed] = []
        self.outcomes: list[Outcome] = []
        self.lost: dict[ManagedKind, str] = {}
        self.is_late = False
        self.waiting: list[Callable[[], None]] = []

    def observe(self, resource: Resource, told: Callable[[Observed], None]) -> None:
        def tell() -> None:
            listings = {
                kind: Unknown(self.lost[kind])
                if kind in self.lost
                else Known(tuple(c for c in self.children.values() if c.kind is kind))
                for kind in KINDS
            }
            told(Observed(children=listings))

        self._say(tell)

    def act(self, resource: Resource, deed: Deed, told: Callable[[Outcome], None]) -> None:
        self.deeds.append(deed)
        outcome = self.outcomes.pop(0) if self.outcomes else DONE
        if outcome is DONE:
            self._do(resource, deed)
        self._say(lambda: told(outcome))

    def routers(self, resource: Resource) -> tuple[Router, ...]:
        return ()

    def _say(self, tell: Callable[[], None]) -> None:
        if self.is_late:
            self.waiting.append(tell)
        else:
            tell()

    def answer(self) -> None:
        self.waiting.pop(0)()

    def _do(self, resource: Resource, deed: Deed) -> None:
        if isinstance(deed, ApplyWorkload):
            for workload in deed.workloads:
                self.children[workload.name] = Child(
                    kind=workload.kinds[0],
                    name=workload.name,
                    owner=resource.name,
                    function_key=workload.function_key,
                    revision=workload.revision,
                    desired=workload.replicas,
                    current=workload.replicas,
                    updated=workload.replicas,
                    ready=workload.replicas,
                )
        elif isinstance(deed, DeleteOrphans | DeleteChildren):
            for ref in deed.children:
                self.children.pop(ref.name, None)


class Adviser:
    def __init__(self, replicas: int) -> None:
        self.replicas = replicas

    def recommend(
        self,
        resource: Resource,
        observed: Observed,
        now: Instant,
        told: Callable[[Mapping[str, Recommendation]], None],
    ) -> None:
        told(
            {
                "replicas": Recommendation(
                    value=self.replicas, observed_at=now, generation=resource.generation
                )
            }
        )


class World:
    def __init__(self, **analyzers: Adviser) -> None:
        self.clock = ManualClock()
        self.shelf, self.ground = Shelf(), Ground()
        self.loop = Reconciler(self.shelf, self.ground, analyzers, self.clock)

    def declare(self, *functions: dict[str, object], **spec: object) -> None:
        self.shelf.declare(manifest("greeter", *functions, **spec))
        self.loop.enqueue("greeter")

    def run(self, ms: int = 0) -> None:
        """Until nothing is due for so long."""
        until = self.clock.now() + ms
        while True:
            due = self.loop.step(self.clock.now())
            if not due or due > until:
                self.clock.advance_to(until)
                return
            self.clock.advance_to(due)

    @property
    def status(self) -> Status:
        return self.shelf.kept["greeter"].status

    @property
    def phase(self) -> Phase:
        return self.status.phase


@pytest.fixture
def world() -> World:
    return World()


def test_a_runtime_goes_all_the_way_and_then_costs_no_write(world: World) -> None:
    world.declare()
    world.run()
    assert world.phase is Phase.AVAILABLE
    assert world.shelf.events[-1] == "Available"
    writes = world.shelf.writes
    world.run(3_600_000)
    for _ in range(100):
        world.loop.enqueue("greeter")
        world.run()
    assert world.shelf.writes == writes


def test_whoever_answers_late_holds_up_nobody_and_is_asked_once(world: World) -> None:
    world.ground.is_late = True
    world.shelf.declare(manifest("other"))
    world.declare()
    world.loop.enqueue("other")
    world.run()
    assert len(world.ground.waiting) == 2
    # Both wait for an answer; whatever happens meanwhile starts no second look.
    world.loop.enqueue("greeter")
    world.run()
    assert len(world.ground.waiting) == 2
    for _ in range(60):
        if world.ground.waiting:
            world.ground.answer()
        world.run(2_000)
    assert world.phase is Phase.AVAILABLE
    assert world.shelf.kept["other"].status.phase is Phase.AVAILABLE


def test_what_somebody_else_wrote_meanwhile_is_looked_at_again(world: World) -> None:
    world.declare()
    world.run()

    def change() -> None:
        world.shelf.declare(manifest("greeter", function("hello", replicas=4)))

    world.ground.children.clear()
    world.shelf.meddles = change
    world.loop.enqueue("greeter")
    world.run(120_000)
    assert world.phase is Phase.AVAILABLE
    assert world.status.observed_generation == 2
    assert world.ground.children["greeter--hello"].desired == 4


def test_002_136_what_an_analyzer_wrote_while_a_pass_is_under_way_is_not_lost(
    world: World,
) -> None:
    world.declare()
    world.ground.is_late = True
    world.run()
    world.ground.answer()
    world.run()

    told = Recommendation(value=3, observed_at=world.clock.now(), generation=1)
    known = world.shelf.kept["greeter"]
    status = replace(known.status, nfr_recommendations={"replicas": told})
    world.shelf.kept["greeter"] = replace(known, status=status, version=known.version + 1)
    world.ground.is_late = False
    while world.ground.waiting:
        world.ground.answer()
    world.run(5_000)
    assert world.phase is Phase.AVAILABLE
    assert world.status.nfr_recommendations == {"replicas": told}


def test_resolution_002_17_a_failed_listing_deletes_nothing_and_degrades_nothing(
    world: World,
) -> None:
    world.declare()
    world.run()
    deeds = len(world.ground.deeds)
    world.ground.lost = dict.fromkeys(KINDS, "no answer")
    world.loop.enqueue("greeter")
    world.run(1_000_000)
    assert world.phase is Phase.AVAILABLE
    assert len(world.ground.deeds) == deeds
    world.ground.lost = {}
    world.run(60_000)
    assert world.phase is Phase.AVAILABLE


def test_a_failing_apply_is_tried_again_ever_more_slowly(world: World) -> None:
    world.ground.outcomes = [Outcome(ApplyCode.FAILED, "no room")] * 6
    world.declare()
    world.run(5_000)
    assert world.phase is not Phase.AVAILABLE
    tries = len(world.ground.deeds)
    assert tries <= 4
    world.run(600_000)
    assert world.phase is Phase.AVAILABLE


def test_a_conflict_degrades_and_its_end_recovers(world: World) -> None:
    world.ground.outcomes = [Outcome(ApplyCode.CONFLICT, "Deployment/greeter--hello")]
    world.declare()
    world.run()
    assert world.phase is Phase.DEGRADED
    assert "Conflict" in world.shelf.events
    world.run(300_000)
    assert world.phase is Phase.AVAILABLE


def test_orphans_go_and_a_deleted_runtime_leaves_nothing(world: World) -> None:
    world.declare(function("a"), function("b"))
    world.run(5_000)
    world.declare(function("a"))
    world.run(60_000)
    assert list(world.ground.children) == ["greeter--a"]
    known = world.shelf.kept["greeter"]
    world.shelf.kept["greeter"] = replace(known, deleted_at=world.clock.now(), version=999)
    world.loop.enqueue("greeter")
    world.run(60_000)
    assert world.shelf.kept == {}
    assert world.ground.children == {}
    assert world.loop.tally.phases() == {}
    assert world.loop.step(world.clock.now()) == 0


def test_a_recommendation_is_enforced_once_and_then_held() -> None:
    world = World(static=Adviser(10))
    nfr = {
        "mode": "enforce", "maxReplicas": 5, "stability": "180s", "cooldown": "120s",
        "analyzer": {"static": {"replicas": 10}},
    }  # fmt: skip
    world.declare(nfr=nfr)
    world.run(170_000)
    assert world.ground.children["greeter--hello"].desired == 2
    assert "NFRSkippedStability" in world.shelf.events
    assert "NFRClampedMax" in world.shelf.events
    world.run(3_600_000)
    enforced = [deed for deed in world.ground.deeds if isinstance(deed, EnforceDeed)]
    assert len(enforced) == 1
    assert world.shelf.events.count("NFRApplied") == 1
    assert world.loop.tally.applied == {"replicas": 1}
    observed = condition_of(world.status, ConditionType.NFR_ENFORCED)
    assert observed is not None
    assert observed.is_true
    assert [each.target for each in world.status.last_applied_recommendations] == [5]


def test_a_third_failed_enforcement_degrades_with_its_reason_and_a_success_recovers() -> None:
    world = World(static=Adviser(5))
    nfr = {
        "mode": "enforce", "maxReplicas": 5, "stability": "10s", "cooldown": "10s",
        "analyzer": {"static": {"replicas": 5}},
    }  # fmt: skip
    world.declare(nfr=nfr)
    world.run(5_000)
    world.ground.outcomes = [Outcome(ApplyCode.CONFLICT, "somebody else has it")] * 3
    world.run(28_000)
    assert world.loop.tally.failed == {"EnforceConflict": 3}
    assert world.phase is Phase.DEGRADED
    assert "EnforceConflict" in world.shelf.events
    world.run(120_000)
    assert world.phase is Phase.AVAILABLE
    assert world.loop.tally.applied == {"replicas": 1}


def test_a_pass_that_never_comes_to_rest_has_to_wait(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = 0

    def begin(self: Pass) -> None:
        nonlocal passes
        passes += 1
        self.has_changed = True
        self._over(self)

    monkeypatch.setattr(Pass, "begin", begin)
    world.declare()
    world.run(400)
    assert passes < 40
