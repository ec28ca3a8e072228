"""From a workload to a job and a plan, and what is kept of it."""

from holdfast.coordinator.reconciling.deployment import (
    KIND,
    NOTHING,
    Memory,
    encode_memory,
    encode_workload,
    job_spec,
    memory_of,
    plan_for,
    workload_of,
    workload_problem,
)
from holdfast.core.ids import Instant, Position
from holdfast.core.resource import Resource as Stored
from holdfast.runtimes.manifest import ClassRuntime, decode
from holdfast.runtimes.resource import Resource
from holdfast.runtimes.status import RolloutProgress
from holdfast.runtimes.templates import TEMPLATES
from holdfast.runtimes.workload import Workload
from holdfast.testing.hosted import function, manifest

FULL = function(
    "hello",
    "serve",
    replicas=3,
    ports=["http", "admin"],
    env={"MODE": "fast"},
    resources={"cpu": "500m", "memory": "64Mi", "gpus": 1},
    health={"path": "/up", "period": "2s", "live": {"exec": ["true"]}, "start": {}},
    metrics={"path": "/numbers", "port": "admin"},
    placement={"constraints": ["zone == eu"], "spread": "pack"},
    rollout={"surge": "25%", "unavailable": 1, "steps": ["10%", "100%"], "pause": "60s"},
    restarts={"max": 4, "refill": "30s", "delay": "2s", "maxDelay": "20s", "steady": "90s"},
    grace="7s",
)


def workload() -> Workload:
    declared = decode(manifest("greeter", FULL, template="edge"))
    assert isinstance(declared, ClassRuntime), declared
    resource = Resource(
        name="greeter", generation=1, version=1, created_at=Instant(1), spec=declared.spec
    )
    (only,) = TEMPLATES["edge"].render(resource)
    return only


def stored(content: bytes, status: bytes = b"") -> Stored:
    return Stored(
        kind=KIND, name="greeter--hello", spec=content, generation=1, version=Position(1),
        created_at=Instant(1), status=status,
    )  # fmt: skip


def test_what_is_stored_is_read_back_and_the_same_is_the_same_bytes() -> None:
    wanted = workload()
    content = encode_workload(wanted)
    assert workload_of(stored(content)) == wanted
    assert encode_workload(workload()) == content
    progress = RolloutProgress(revision=wanted.revision, step=1, steps=2)
    for memory in (NOTHING, Memory(progress=progress), Memory(is_scraped=True)):
        assert memory_of(stored(content, encode_memory(memory))) == memory
    assert encode_memory(NOTHING) == b""


def test_every_part_of_a_workload_reaches_the_job_or_the_plan() -> None:
    wanted = workload()
    spec, plan = job_spec(wanted), plan_for(wanted)
    assert (spec.name, spec.kind) == ("greeter--hello", "service")
    assert (spec.cpus_milli, spec.memory_bytes, spec.gpus) == (500, 64 << 20, 1)
    assert dict(spec.labels) == wanted.labels
    assert spec.placing.spread == "pack"
    (constraint,) = spec.placing.constraints
    assert (constraint.attribute, constraint.values) == ("zone", ("eu",))
    policy = spec.service
    assert (policy.restarts, policy.refill_ms, policy.endpoint) == (4, 30_000, "greeter--hello")
    assert (policy.delay_ms, policy.max_delay_ms, policy.steady_ms) == (2_000, 20_000, 90_000)
    assert (plan.argv, plan.ports, plan.env) == (("serve",), ("http", "admin"), {"MODE": "fast"})
    assert (plan.metrics, plan.metrics_port, plan.grace_ms) == ("/numbers", "admin", 7_000)
    assert plan.ready is not None
    assert (plan.ready.kind, plan.ready.path, plan.ready.period_ms) == ("http", "/up", 2_000)
    assert plan.start is not None
    assert plan.start.path == "/up"
    assert plan.live is not None
    assert (plan.live.kind, plan.live.argv) == ("exec", ("true",))
    assert workload_problem(wanted) == ""
