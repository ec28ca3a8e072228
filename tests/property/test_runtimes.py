"""Laws of the evaluator and the reducer, over worlds that nobody thought of."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.ids import NEVER, Instant
from holdfast.runtimes import actions as a
from holdfast.runtimes.documents import decode_status, encode_status
from holdfast.runtimes.evaluate import evaluate
from holdfast.runtimes.evaluation import DEFAULT_CONFIG, EvalInput, EvalOutput
from holdfast.runtimes.observed import (
    Child,
    Crash,
    Known,
    ManagedKind,
    Observed,
    Partition,
    Telling,
    Unknown,
)
from holdfast.runtimes.phases import EDGES
from holdfast.runtimes.reduce import (
    apply_enforcement,
    record_apply,
    record_metrics,
    record_recommendations,
    reduce,
    refresh_routers,
    same,
)
from holdfast.runtimes.resource import FINALIZER, Resource
from holdfast.runtimes.spec import Spec
from holdfast.runtimes.status import (
    ApplyCode,
    ApplyResult,
    Condition,
    ConditionType,
    Enforced,
    FunctionStatus,
    Phase,
    Recommendation,
    ResourceRef,
    Router,
    Stability,
    Status,
    Tried,
)
from holdfast.runtimes.templates import TEMPLATES
from holdfast.testing.model_runtime import ModelRuntime, a_resource, declared, function

KEYS = ("hello", "bye", "third")
SPECS: list[Spec] = [
    declared(template=template, functions=[function(key, replicas=2) for key in keys], **more)
    for template in ("dev", "edge")
    for keys in (KEYS[:1], KEYS)
    for more in (
        {},
        {"odgm": {"command": ["grid"]}},
        {
            "odgm": {"command": ["grid"], "replicas": 2, "partitionHealth": {}},
            "nfr": {"mode": "enforce", "maxReplicas": 4, "dimensions": ["odgm_replicas"]},
        },
        {"nfr": {"mode": "enforce", "maxReplicas": 5, "dimensions": ["replicas", "memory"]}},
    )
]

instants = st.integers(0, 500_000).map(Instant)
counts = st.integers(0, 4)
reasons = st.sampled_from(["Timeout", "CrashLoop", "Conflict", "EnforceConflict", "Other"])
words = st.sampled_from(["", "said"])
keys = st.sampled_from([*KEYS, "gone"])
names = keys.map(lambda key: f"greeter--{key}") | st.just("greeter---odgm")
targets = st.sampled_from(["replicas", "odgm_replicas", *(f"replicas/{key}" for key in KEYS)])


def revisions() -> list[str]:
    return ["", *{w.revision for spec in SPECS for w in TEMPLATES[spec.template].render(
        a_resource(spec))}]  # fmt: skip


children = st.builds(
    Child,
    kind=st.sampled_from(ManagedKind),
    name=names,
    owner=st.just("greeter"),
    function_key=keys,
    revision=st.sampled_from(sorted(revisions())),
    desired=counts,
    current=counts,
    updated=counts,
    ready=counts,
    crash=st.none() | st.builds(Crash, names, st.integers(0, 9)),
    is_deleting=st.booleans(),
    leaving=st.integers(0, 1),
)
partitions = st.builds(
    Partition, name=st.sampled_from("01"), members=counts, ready=counts,
    leader=st.sampled_from(["", "a"]), leader_since=instants,
)  # fmt: skip
listings = st.builds(Unknown, words) | st.lists(children, max_size=4).map(
    lambda found: Known(tuple(found))
)
worlds = st.builds(
    Observed,
    children=st.dictionaries(st.sampled_from(ManagedKind), listings),
    partitions=st.none() | st.lists(partitions, max_size=2).map(tuple),
    telling=st.builds(
        Telling, doubt=words, is_awaited=st.booleans(), told_at=instants, until=instants
    ),
)
recommendations = st.builds(
    Recommendation,
    value=st.integers(-3, 20),
    observed_at=instants,
    generation=st.integers(1, 3),
    confidence=st.floats(0, 1),
)
statuses = st.builds(
    Status,
    phase=st.sampled_from(Phase),
    observed_generation=st.integers(0, 3),
    template=st.sampled_from(["", "dev", "edge"]),
    conditions=st.lists(
        st.builds(
            Condition,
            type=st.sampled_from(ConditionType),
            is_true=st.booleans(),
            reason=reasons,
            last_transition_at=instants,
        ),
        max_size=8,
        unique_by=lambda each: each.type,
    ).map(tuple),
    functions=st.lists(
        st.builds(FunctionStatus, function_key=keys, ready=counts, service=words),
        max_size=3,
        unique_by=lambda each: each.function_key,
    ).map(tuple),
    nfr_recommendations=st.dictionaries(targets, recommendations, max_size=2),
    apply=st.builds(
        ApplyResult,
        generation=st.integers(0, 3),
        code=st.sampled_from(ApplyCode),
        message=words,
        since=instants,
    ),
    tries=st.dictionaries(
        st.sampled_from(["finalizer", "orphans", "children", "apply/1", "apply/2",
                         "leaves/greeter---odgm", "left/greeter---odgm",
                         *(f"missing/Deployment/greeter--{key}" for key in KEYS)]),
        st.builds(Tried, count=st.integers(1, 40), last_at=instants),
        max_size=3,
    ),
    stability=st.dictionaries(
        targets, st.builds(Stability, target=counts, last_change_at=instants), max_size=2
    ),
    enforced=st.dictionaries(
        targets,
        st.builds(
            Enforced,
            target=st.none() | counts,
            cooldown_until=instants,
            failures=st.integers(0, 4),
            reason=reasons,
        ),
        max_size=2,
    ),
)  # fmt: skip
resources = st.builds(
    Resource,
    name=st.just("greeter"),
    generation=st.integers(1, 3),
    version=st.just(1),
    created_at=st.just(Instant(1)),
    spec=st.sampled_from(SPECS),
    status=statuses,
    deleted_at=st.none() | instants,
    finalizers=st.sampled_from([(), (FINALIZER,), ("another",)]),
)


def looked(resource: Resource, observed: Observed, now: Instant) -> EvalOutput:
    descriptor = TEMPLATES[resource.spec.template]
    return evaluate(
        EvalInput(resource=resource, observed=observed, now=now, descriptor=descriptor)
    )


def check_a_look(resource: Resource, observed: Observed, now: Instant) -> None:
    output = looked(resource, observed, now)
    assert output == looked(resource, observed, now), "the same look has the same answer"
    assert output.phase in EDGES[resource.status.phase]
    assert [each.type for each in output.conditions] == list(ConditionType)
    assert all(each.reason for each in output.conditions)
    true = {each.type for each in output.conditions if each.is_true}
    assert (ConditionType.AVAILABLE in true) is (output.phase is Phase.AVAILABLE)
    assert (ConditionType.DEGRADED in true) is (output.phase is Phase.DEGRADED)
    assert (ConditionType.READY in true) is (output.phase is Phase.AVAILABLE)
    longest = max(DEFAULT_CONFIG.retry_most_ms, int(resource.spec.timeouts.progress))
    if output.requeue_after_ms is not None:
        assert output.requeue_after_ms > 0
        if resource.spec.nfr.mode == "off":
            assert output.requeue_after_ms <= longest
    if output.phase in (Phase.PROGRESSING, Phase.DEGRADED):
        assert output.requeue_after_ms is not None
    check_deletes(resource, observed, output)
    once = reduce(resource.status, output, now=now)
    assert reduce(once, output, now=Instant(now + 1)) is once, "a repeat adds nothing"
    assert decode_status(encode_status(once)) == once


def check_deletes(resource: Resource, observed: Observed, output: EvalOutput) -> None:
    """Nothing is taken away that was not seen, nor for a spec's sake before all else is up."""
    seen = {
        ResourceRef(kind, child.name)
        for kind, listing in observed.children.items()
        if isinstance(listing, Known)
        for child in listing.children
    }
    for action in output.actions:
        if isinstance(action, a.DeleteOrphans):
            assert output.phase is Phase.AVAILABLE
            assert resource.deleted_at is None
            assert set(action.children) <= seen
        elif isinstance(action, a.DeleteChildren | a.RemoveFinalizer):
            assert resource.deleted_at is not None
        if isinstance(action, a.RemoveFinalizer):
            managed = TEMPLATES[resource.spec.template].managed
            assert all(observed.children.get(kind) == Known() for kind in managed)
            assert not seen


@settings(max_examples=6)
@given(resources, worlds, instants)
def test_002_1_5_every_world_has_one_answer_that_obeys_the_tables(resource, observed, now):
    check_a_look(resource, observed, now)


@pytest.mark.slow
@settings(settings.get_profile("slow"))
@given(resources, worlds, instants)
def test_002_1_5_every_world_has_one_answer_in_many_examples(resource, observed, now):
    check_a_look(resource, observed, now)


@pytest.mark.slow
@given(resources, worlds, instants)
def test_resolution_002_17_what_is_not_known_neither_deletes_nor_degrades(resource, observed, now):
    """Were everything not known, nothing would get worse and nothing would go."""
    blind = Observed(children={kind: Unknown("away") for kind in ManagedKind})
    output = looked(resource, blind, now)
    kinds = (a.DeleteOrphans, a.DeleteChildren, a.RemoveFinalizer)
    assert not [action for action in output.actions if isinstance(action, kinds)]
    told = {each.type: each.reason for each in output.conditions if each.is_true}
    if output.phase is Phase.DEGRADED and resource.status.phase is not Phase.DEGRADED:
        assert told[ConditionType.DEGRADED].startswith(("Conflict", "Apply", "Enforce")) or (
            resource.status.enforced
        )


# --- it arrives ---------------------------------------------------------------------------------

steps = st.lists(
    st.tuples(
        st.sampled_from(["lose", "plant", "unlist", "list", "declare", "refuse", "look", "wait"]),
        st.integers(0, 7),
    ),
    max_size=12,
)


def stir(world: ModelRuntime, what: str, number: int) -> None:
    """Something happens to it."""
    codes = [ApplyCode.CONFLICT, ApplyCode.INVALID, ApplyCode.FAILED]
    match what:
        case "lose":
            world.lose(f"greeter--{KEYS[number % 3]}")
        case "plant":
            world.plant(f"greeter--stray-{number}", list(ManagedKind)[number % 2])
        case "unlist":
            world.unlisted.add(list(ManagedKind)[number % 6])
        case "list":
            world.unlisted.clear()
        case "declare":
            commands = ["serve", "crash", "hang"]
            made = [function(key, commands[number % 3]) for key in KEYS[: 1 + number % 3]]
            world.declare(functions=made)
        case "refuse":
            world.refusals.append(codes[number % 3])
        case "wait":
            world.now = Instant(world.now + number * 100_000)
    world.look()


def arrives(happened: list[tuple[str, int]]) -> None:
    world = ModelRuntime(a_resource())
    for what, number in happened:
        stir(world, what, number)
    world.unlisted.clear()
    world.declare(functions=[function("hello"), function("bye")], odgm={"command": ["grid"]})
    world.look()
    world.run(lambda: world.phase is Phase.AVAILABLE and len(world.children) == 6, rounds=60)
    before = world.writes
    world.look()
    world.look()
    assert world.writes - before <= 1, "once it is there nothing more is written"
    for one, other in zip(world.phases, world.phases[1:], strict=False):
        assert other in EDGES[one]
    world.delete()
    world.end(rounds=20)
    assert not world.children


@settings(max_examples=5)
@example([("unlist", 0), ("refuse", 2), ("wait", 3)])
@given(steps)
def test_whatever_happened_it_arrives_in_bounded_rounds_and_leaves_nothing_behind(happened):
    arrives(happened)


@pytest.mark.slow
@settings(settings.get_profile("slow"), max_examples=400)
@given(steps)
def test_whatever_happened_it_arrives_in_many_examples(happened):
    arrives(happened)


# --- two who write at once ----------------------------------------------------------------------


def writers(resource: Resource, output: EvalOutput, told: dict[str, Recommendation]) -> list[Any]:
    """Everybody who writes a status, each with something of its own to say."""
    now = Instant(600_000)
    outcome = a.EnforcementOutcome(
        key="replicas/hello", component="function", dimension="replicas", function_key="hello",
        target=4, basis="enforcer", confidence=1.0, cooldown_until=now, at=Instant(now - 1),
    )  # fmt: skip
    applied = a.ApplyOutcome(generation=resource.generation, code=ApplyCode.OK)
    routers = (Router("greeter--hello", ("h:1",)),)
    return [
        lambda status: reduce(status, output, now=now),
        lambda status: apply_enforcement(status, outcome, now=now),
        lambda status: record_recommendations(status, told, stale_after_ms=300_000, now=now),
        lambda status: record_apply(status, applied, now=now),
        lambda status: record_metrics(status, ("greeter--hello /metrics",), now=now),
        lambda status: refresh_routers(status, routers, now=now),
    ]


def known_only(resource: Resource) -> Resource:
    """What is recommended or enforced for a function that is gone goes with it, whenever."""
    own = {"replicas", *(f"replicas/{each.key}" for each in resource.spec.functions)}
    status = resource.status
    return replace(
        resource,
        status=replace(
            status,
            nfr_recommendations={k: v for k, v in status.nfr_recommendations.items() if k in own},
            enforced={k: v for k, v in status.enforced.items() if k in own},
        ),
    )


def check_order(resource: Resource, observed: Observed, now: Instant, order: list[int]) -> None:
    resource = known_only(resource)
    output = looked(resource, observed, now)
    told = {"replicas": Recommendation(value=3, observed_at=now, generation=1)}
    every = writers(resource, output, told)
    straight = turned = resource.status
    for write in every:
        straight = write(straight)
        assert write(straight) is straight, "a repeat adds nothing"
    for index in order:
        turned = every[index](turned)
    assert same(straight, turned)
    assert straight.enforced["replicas/hello"].target == 4
    assert straight.routers
    assert straight.last_applied_at > NEVER
    assert straight.phase is output.phase


@settings(max_examples=5)
@given(resources, worlds, instants, st.permutations(range(6)))
def test_002_136_whoever_writes_first_nothing_is_lost(resource, observed, now, order):
    check_order(resource, observed, now, order)


@pytest.mark.slow
@settings(settings.get_profile("slow"))
@given(resources, worlds, instants, st.permutations(range(6)))
def test_002_136_whoever_writes_first_nothing_is_lost_in_many_examples(
    resource, observed, now, order
):
    check_order(resource, observed, now, order)
