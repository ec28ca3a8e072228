"""What one look at a class runtime costs: ten functions and a data grid, all up, all gone, or each
with a recommendation that is carried out already or still waits.

Processor time, the best of several stretches: a busy machine makes a pure function no slower, only
its clock.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from holdfast.cli.benchmarks.row import Figure, Row, RowFailed, Values, at_most, main
from holdfast.core.ids import Instant
from holdfast.runtimes.evaluate import evaluate
from holdfast.runtimes.evaluation import EvalInput
from holdfast.runtimes.manifest import ClassRuntime, decode
from holdfast.runtimes.observed import Child, Known, ManagedKind, Observed
from holdfast.runtimes.reduce import reduce
from holdfast.runtimes.resource import API_VERSION, FINALIZER, KIND, Resource
from holdfast.runtimes.status import (
    ApplyCode,
    ApplyResult,
    Phase,
    Recommendation,
    Status,
    target_key,
)
from holdfast.runtimes.templates import TEMPLATES
from holdfast.runtimes.workload import Workload

FUNCTIONS = 10
REPLICAS = 2
STRETCHES = 5
NOW = Instant(10_000_000)
BEGAN = Instant(9_000_000)


def run(size: int, folder: Path) -> Values:
    resource = _resource()
    descriptor = TEMPLATES[resource.spec.template]
    workloads = descriptor.render(resource)
    up = EvalInput(
        resource=resource, observed=_up(workloads), now=NOW, descriptor=descriptor,
        workloads=workloads,
    )  # fmt: skip
    gone = replace(up, observed=Observed(children={kind: Known() for kind in ManagedKind}))
    output = evaluate(up)
    if output.phase is not Phase.AVAILABLE or evaluate(gone).phase is not Phase.PROGRESSING:
        raise RowFailed(f"a runtime with all of it up is {output.phase}")
    advised, waiting = _advised(up, REPLICAS), _advised(up, REPLICAS + 1)
    status = reduce(resource.status, output, now=NOW)
    return {
        "up": _microseconds(lambda: evaluate(up), size),
        "gone": _microseconds(lambda: evaluate(gone), size),
        "advised": _microseconds(lambda: evaluate(advised), size),
        "waiting": _microseconds(lambda: evaluate(waiting), size),
        "render": _microseconds(lambda: descriptor.render(resource), size),
        "reduce": _microseconds(lambda: reduce(status, output, now=NOW), size),
    }


def _advised(given: EvalInput, value: int) -> EvalInput:
    """The same, with a recommendation for each function that was looked at before."""
    advice = Recommendation(value=value, observed_at=NOW, generation=1, basis="throughput")
    told = {target_key("replicas", f"f{n}"): advice for n in range(FUNCTIONS)}
    status = replace(given.resource.status, nfr_recommendations=told)
    advised = replace(given, resource=replace(given.resource, status=status))
    status = reduce(status, evaluate(advised), now=NOW)
    if len(status.stability) != FUNCTIONS:
        raise RowFailed("a recommendation was not looked at")
    return replace(advised, resource=replace(given.resource, status=status))


def _microseconds(look: Callable[[], object], times: int) -> float:
    best = float("inf")
    for _ in range(STRETCHES):
        began = time.process_time_ns()
        for _ in range(times):
            look()
        best = min(best, (time.process_time_ns() - began) / times / 1_000)
    return best


def _resource() -> Resource:
    component = {"command": ["python3", "-m", "http.server", "$PORT"], "health": {"path": "/"}}
    functions = [{"key": f"f{n}", "replicas": REPLICAS, **component} for n in range(FUNCTIONS)]
    nfr = {"mode": "enforce", "maxReplicas": 5}
    spec = {"template": "edge", "functions": functions, "odgm": component, "nfr": nfr}
    runtime = decode(
        {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "measured"}, "spec": spec}
    )
    if not isinstance(runtime, ClassRuntime):
        raise RowFailed(str(runtime))
    return Resource(
        name="measured",
        generation=1,
        version=1,
        created_at=BEGAN,
        spec=runtime.spec,
        finalizers=(FINALIZER,),
        status=Status(
            phase=Phase.AVAILABLE,
            apply=ApplyResult(generation=1, code=ApplyCode.OK, since=BEGAN),
        ),
    )


def _up(workloads: tuple[Workload, ...]) -> Observed:
    """Every child there, every replica ready."""
    found: dict[ManagedKind, list[Child]] = {kind: [] for kind in ManagedKind}
    for workload in workloads:
        for kind in (*workload.kinds, *workload.companions):
            found[kind].append(
                Child(
                    kind=kind, name=workload.name, owner="measured",
                    function_key=workload.function_key, revision=workload.revision,
                    desired=workload.replicas, current=workload.replicas,
                    updated=workload.replicas, ready=workload.replicas,
                )
            )  # fmt: skip
    return Observed(children={kind: Known(tuple(each)) for kind, each in found.items()})


ROW = Row(
    name="evaluator",
    what=f"a look at a class runtime of {FUNCTIONS} functions and a data grid",
    figures=(
        Figure("up", "all of it up", "µs", at_most(100)),
        Figure("gone", "all of it gone", "µs", at_most(100)),
        Figure("advised", "all of it up, with a recommendation for each", "µs", at_most(100)),
        Figure("waiting", "the same, and each waits to be carried out", "µs", at_most(100)),
        Figure("render", "what should be there, made anew", "µs"),
        Figure("reduce", "the status, nothing new", "µs"),
    ),
    size=5_000,
    quick_size=200,
    run=run,
)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))
