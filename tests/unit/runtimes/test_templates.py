"""What each template says of itself, and that a new one is a new file and nothing else."""

import sys

import pytest
from msgspec.structs import replace

from holdfast.core.ids import Instant
from holdfast.runtimes import templates
from holdfast.runtimes.descriptor import TemplateDescriptor, replicas_ready
from holdfast.runtimes.evaluate import evaluate
from holdfast.runtimes.evaluation import EvalInput
from holdfast.runtimes.manifest import ClassRuntime, decode
from holdfast.runtimes.observed import Child, Known, ManagedKind, Observed, Partition, Telling
from holdfast.runtimes.resource import API_VERSION, KIND, Resource
from holdfast.runtimes.status import ApplyCode, ApplyResult, Enforced, Phase, Status
from holdfast.runtimes.templates import TEMPLATES, discover
from holdfast.runtimes.workload import PartitionCheck, Workload
from holdfast.testing.model_runtime import a_resource, declared, function

ODGM = {"command": ["grid", "$PORT"], "partitions": 2}
TELLS = {"partitionHealth": {}}
EVERY = pytest.mark.parametrize("descriptor", list(TEMPLATES.values()), ids=list(TEMPLATES))


def rendered(descriptor: TemplateDescriptor, **spec: object) -> tuple[Workload, ...]:
    return descriptor.render(a_resource(declared(template=descriptor.id, **spec)))


def child_of(workload: Workload, **changes: object) -> Child:
    child = Child(
        kind=workload.kinds[0], name=workload.name, owner="greeter",
        function_key=workload.function_key, revision=workload.revision,
        desired=workload.replicas, current=workload.replicas, updated=workload.replicas,
        ready=workload.replicas,
    )  # fmt: skip
    return replace(child, **changes)


def test_002_158_the_templates_for_local_workers_are_there():
    assert {"dev", "edge"} <= set(TEMPLATES)


@EVERY
def test_002_37_to_44_a_descriptor_says_all_that_the_evaluator_asks(descriptor):
    assert TEMPLATES[descriptor.id] is descriptor
    assert set(descriptor.managed) <= set(ManagedKind)
    assert {rule.kind for rule in descriptor.readiness} == set(descriptor.managed)
    assert any(rule.contributes_to_available for rule in descriptor.readiness)
    assert descriptor.supports_odgm
    assert descriptor.label_selector("greeter") == ("oaas.io/owner", "greeter")
    assert descriptor.function_namer("greeter", "hello") == "greeter--hello"


@EVERY
def test_002_50_every_workload_has_the_predicted_name_and_labels(descriptor):
    hello, bye, grid = rendered(descriptor, functions=[function(), function("bye")], odgm=ODGM)
    assert [each.name for each in (hello, bye, grid)] == [
        "greeter--hello", "greeter--bye", "greeter---odgm",
    ]  # fmt: skip
    assert hello.labels == {
        "oaas.io/owner": "greeter",
        "oaas.io/function": "hello",
        "oaas.io/component": "function",
        "oaas.io/revision": hello.revision,
    }
    assert grid.labels["oaas.io/component"] == "odgm"
    for workload in (hello, bye, grid):
        every = workload.kinds + workload.companions
        assert set(every) <= set(descriptor.managed)
        assert len(every) == len(set(every)), "an orphan is found by counting each kind once"


@EVERY
def test_no_two_classes_come_to_the_same_name(descriptor):
    pairs = [("a", "b-c"), ("a-b", "c"), ("a", "odgm"), ("a-odgm", "b")]
    names = [descriptor.function_namer(*pair) for pair in pairs]
    names += [descriptor.odgm_namer(each) for each in ("a", "a-b", "a-odgm")]
    assert len(set(names)) == len(names)


def test_dev_asks_for_nothing_and_stays_on_one_worker():
    wanted = function(resources={"cpu": 2, "memory": "1Gi", "gpus": 1})
    (hello,) = rendered(TEMPLATES["dev"], functions=[wanted])
    assert (hello.cpus_milli, hello.memory_bytes, hello.gpus) == (0, 0, 0)
    assert (hello.workers_most, hello.spread) == (1, "pack")


def test_edge_asks_for_what_is_declared_and_spreads():
    wanted = function(resources={"cpu": "500m", "memory": "1Gi", "gpus": 1})
    (hello,) = rendered(TEMPLATES["edge"], functions=[wanted])
    assert (hello.cpus_milli, hello.memory_bytes, hello.gpus) == (500, 2**30, 1)
    assert (hello.workers_most, hello.spread) == (0, "spread")


@EVERY
@pytest.mark.parametrize(
    ("change", "is_replaced"),
    [
        ({"replicas": 7}, False),
        ({"rollout": {"surge": 3}}, False),
        ({"restarts": {"max": 3}}, True),
        ({"env": {"A": "1"}}, True),
        ({"command": ["other"]}, True),
        ({"health": {"path": "/"}}, True),
        ({"placement": {"constraints": ["zone == eu"]}}, True),
        ({"grace": "1s"}, True),
    ],
)
def test_only_what_replaces_replicas_is_a_new_revision(descriptor, change, is_replaced):
    (before,) = rendered(descriptor)
    (after,) = rendered(descriptor, functions=[{**function(), **change}])
    assert (before.revision != after.revision) is is_replaced


@EVERY
def test_what_was_enforced_stands_above_what_was_declared(descriptor):
    resource = a_resource(
        declared(template=descriptor.id, functions=[function(), function("bye")], odgm=ODGM),
        status=Status(
            enforced={
                "replicas": Enforced(target=4),
                "replicas/bye": Enforced(target=6),
                "odgm_replicas": Enforced(target=3),
                "memory/bye": Enforced(target=2**20),
            }
        ),
    )
    hello, bye, grid = descriptor.render(resource)
    assert (hello.replicas, bye.replicas, grid.replicas) == (4, 6, 3)
    assert bye.memory_bytes == (2**20 if descriptor.id == "edge" else 0)


@EVERY
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"ready": 3}, ""),
        ({"ready": 1}, "ReplicasNotReady"),
        ({"updated": 1}, "RollingOut"),
        ({"revision": "older"}, "Outdated"),
        ({"desired": 1}, "Outdated"),
    ],
)
def test_002_47_a_deployment_is_ready_with_as_many_replicas_as_desired(descriptor, changes, reason):
    (hello,) = rendered(descriptor, functions=[function(replicas=2)])
    rule = next(rule for rule in descriptor.readiness if rule.kind is hello.kinds[0])
    result = rule.evaluator(hello, child_of(hello, **changes), Observed(children={}))
    assert (result.is_ready, result.reason) == (not reason, reason)


@EVERY
@pytest.mark.parametrize(
    ("changes", "is_ready", "reason"),
    [
        ({"current": 3, "updated": 3, "ready": 3}, True, "Scaling"),
        ({"current": 3, "updated": 3, "ready": 2}, True, "Scaling"),
        ({"current": 3, "updated": 3, "ready": 1}, False, "ReplicasNotReady"),
        ({"current": 3, "updated": 2, "ready": 3}, False, "RollingOut"),
        ({}, True, ""),
    ],
)
def test_what_is_enforced_beyond_the_declared_is_not_waited_for(
    descriptor, changes, is_ready, reason
):
    resource = a_resource(
        declared(template=descriptor.id, functions=[function(replicas=2)]),
        status=Status(enforced={"replicas/hello": Enforced(target=5)}),
    )
    (hello,) = descriptor.render(resource)
    assert (hello.replicas, hello.required) == (5, 2)
    result = replicas_ready(hello, child_of(hello, **changes), Observed(children={}))
    assert (result.is_ready, result.reason) == (is_ready, reason)


@EVERY
def test_fewer_that_are_enforced_are_enough(descriptor):
    resource = a_resource(
        declared(template=descriptor.id, functions=[function(replicas=2)]),
        status=Status(enforced={"replicas/hello": Enforced(target=1)}),
    )
    (hello,) = descriptor.render(resource)
    assert (hello.replicas, hello.required) == (1, 1)


def test_why_replicas_are_not_there_is_told_with_them():
    (hello,) = rendered(TEMPLATES["dev"], functions=[function(replicas=2)])
    child = child_of(hello, updated=1, problems=("no worker has a slot",))
    result = replicas_ready(hello, child, Observed(children={}))
    assert result.message == "1 of 2 replicas updated: no worker has a slot"


@EVERY
def test_002_167_the_data_grid_is_ready_with_every_partition_it_tells_of(descriptor):
    grid = rendered(descriptor, odgm=ODGM)[1]
    rule = next(rule for rule in descriptor.readiness if rule.kind is grid.kinds[0])
    for ready, is_ready in ((2, True), (1, False)):
        partitions = (Partition(name="p0", members=2, ready=ready, leader="a"),)
        observed = Observed(children={}, partitions=partitions)
        assert rule.evaluator(grid, child_of(grid), observed).is_ready is is_ready


@EVERY
def test_a_grid_that_is_to_tell_and_does_not_is_not_ready_and_only_early_on_unknown(descriptor):
    silent, grid = (rendered(descriptor, odgm={**ODGM, **more})[1] for more in ({}, TELLS))
    rule = next(rule for rule in descriptor.readiness if rule.kind is grid.kinds[0])
    unheard = Observed(children={}, telling=Telling(doubt="1/0 is silent"))
    assert rule.evaluator(silent, child_of(silent), unheard).is_ready
    found = rule.evaluator(grid, child_of(grid), unheard)
    assert (found.is_ready, found.reason, found.is_unknown) == (False, "PartitionsUnknown", False)
    assert found.message == "the health of the partitions is not known: 1/0 is silent"
    early = Observed(children={}, telling=Telling(is_awaited=True))
    assert rule.evaluator(grid, child_of(grid), early).is_unknown
    one = Observed(children={}, partitions=(Partition(name="0", members=1, ready=1),))
    assert rule.evaluator(grid, child_of(grid), one).message == "1 of 2 partitions are told of"


@EVERY
def test_who_is_asked_about_partitions_is_another_revision_and_who_is_not_is_as_before(descriptor):
    silent, grid = (rendered(descriptor, odgm={**ODGM, **more})[1] for more in ({}, TELLS))
    assert (silent.partition_check, silent.partitions) == (None, 0)
    assert grid.partition_check == PartitionCheck(
        path="/partitions", port="", period_ms=5_000, timeout_ms=1_000
    )
    assert grid.partitions == 2
    assert grid.revision != silent.revision
    assert grid.labels["oaas.io/revision"] == grid.revision
    steady = {"partitionHealth": {"leaderSteady": "5s"}}
    assert rendered(descriptor, odgm={**ODGM, **steady})[1].revision == grid.revision


def test_probes_take_from_health_what_they_do_not_say():
    health = {"path": "/up", "period": "2s", "start": {"failures": 30}, "live": {"exec": ["ask"]}}
    (hello,) = rendered(TEMPLATES["dev"], functions=[function(health=health)])
    probes = hello.probes
    assert probes.start is not None
    assert probes.ready is not None
    assert probes.live is not None
    assert (probes.ready.kind, probes.ready.path, probes.ready.period_ms) == ("http", "/up", 2_000)
    assert (probes.start.kind, probes.start.path, probes.start.failures) == ("http", "/up", 30)
    assert (probes.live.kind, probes.live.path, probes.live.command) == ("exec", "", ("ask",))


NEW_TEMPLATE = '''
"""A template that stands in a file of its own."""

from holdfast.runtimes.local import descriptor_of
from holdfast.runtimes.rendering import Style

DESCRIPTOR = descriptor_of("attic", Style(asks_resources=True, spread="pack", workers_most=3))
'''


def test_002_4_adding_a_template_touches_no_other_file(tmp_path, monkeypatch):
    (tmp_path / "attic.py").write_text(NEW_TEMPLATE)
    monkeypatch.setattr(templates, "__path__", [*templates.__path__, str(tmp_path)])
    found = discover()
    monkeypatch.delitem(sys.modules, "holdfast.runtimes.templates.attic")
    assert set(found) == {*TEMPLATES, "attic"}
    runtime = decode(
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": "greeter"},
            "spec": {"template": "attic", "functions": [function()]},
        },
        found,
    )
    assert isinstance(runtime, ClassRuntime)
    resource = Resource(
        name="greeter", generation=1, version=1, created_at=Instant(1), spec=runtime.spec,
        finalizers=("oaas.io/runtime",),
        status=Status(
            phase=Phase.PROGRESSING,
            apply=ApplyResult(generation=1, code=ApplyCode.OK, since=Instant(1)),
        ),
    )  # fmt: skip
    workloads = found["attic"].render(resource)
    children = {kind: Known() for kind in found["attic"].managed}
    children[ManagedKind.DEPLOYMENT] = Known(tuple(map(child_of, workloads)))
    output = evaluate(
        EvalInput(
            resource=resource,
            observed=Observed(children=children),
            now=Instant(2),
            descriptor=found["attic"],
        )
    )
    assert output.phase is Phase.AVAILABLE
