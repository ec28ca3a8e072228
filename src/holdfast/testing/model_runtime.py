"""A runtime on a model of a substrate: the real evaluator and reducer, and children that are
numbers. Deterministic, and as small as it can be while everything can go wrong in it.

Every replica of a revision is ready `start_ms` after it was told, unless its command says
otherwise: `crash` ends again and again, `hang` never gets ready. What is deleted is gone after
`stop_ms`.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.ids import Instant
from holdfast.runtimes import actions as a
from holdfast.runtimes.documents import decode_status, encode_status
from holdfast.runtimes.evaluate import evaluate, names_of
from holdfast.runtimes.evaluation import DEFAULT_CONFIG, EvalInput, EvalOutput
from holdfast.runtimes.manifest import ClassRuntime, decode
from holdfast.runtimes.observed import Child, Crash, Known, Listing, ManagedKind, Observed, Unknown
from holdfast.runtimes.reduce import (
    apply_enforcement,
    record_apply,
    record_metrics,
    reduce,
)
from holdfast.runtimes.resource import API_VERSION, FINALIZER, KIND, Resource
from holdfast.runtimes.spec import REPLICAS, Spec
from holdfast.runtimes.status import (
    ApplyCode,
    Condition,
    ConditionType,
    Phase,
    Recommendation,
    ResourceRef,
)
from holdfast.runtimes.templates import TEMPLATES
from holdfast.runtimes.workload import Workload

CRASH_EVERY_MS = 1_000


def declared(name: str = "greeter", **spec: Any) -> Spec:
    """The spec of a manifest with these fields; of one function where none is named."""
    spec.setdefault("template", "dev")
    spec.setdefault("functions", [function()])
    content = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}
    runtime = decode(content)
    if not isinstance(runtime, ClassRuntime):
        raise ValueError(str(runtime))
    return runtime.spec


def function(key: str = "hello", command: str = "serve", **more: Any) -> dict[str, Any]:
    """A function as it is written in a manifest."""
    return {"key": key, "command": [command, "$PORT"], **more}


def a_resource(spec: Spec | None = None, *, is_held: bool = True, **changes: Any) -> Resource:
    """A runtime as somebody has just declared it."""
    return replace(
        Resource(
            name="greeter",
            generation=1,
            version=1,
            created_at=Instant(1),
            spec=declared() if spec is None else spec,
            finalizers=(FINALIZER,) if is_held else (),
        ),
        **changes,
    )


class ModelChild(Struct, kw_only=True):
    """A child as the substrate keeps it."""

    kind: ManagedKind
    name: str
    function_key: str = ""
    command: str = ""
    revision: str = ""
    replicas: int = 0
    told_at: int = 0
    gone_at: int | None = None


class ModelRuntime:
    """One runtime, its world, and a loop that lets time pass from look to look."""

    def __init__(self, resource: Resource, *, start_ms: int = 2_000, stop_ms: int = 500) -> None:
        self.resource = resource
        self.now = Instant(10_000)
        self.children: dict[tuple[ManagedKind, str], ModelChild] = {}
        self.start_ms = start_ms
        self.stop_ms = stop_ms
        self.unlisted: set[ManagedKind] = set()
        self.refusals: list[ApplyCode] = []
        self.enforcement_refusals: list[str] = []
        self.is_gone = False
        self.is_undeletable = False
        self.writes = 0
        self.taken: list[a.Action] = []
        self.phases: list[Phase] = []

    @classmethod
    def up(cls, **spec: Any) -> "ModelRuntime":
        """One that has become available, what it did for that forgotten."""
        world = cls(a_resource(declared(**spec)))
        world.reach(Phase.AVAILABLE)
        world.taken.clear()
        world.phases.clear()
        return world

    @property
    def phase(self) -> Phase:
        return self.resource.status.phase

    @property
    def events(self) -> list[str]:
        return [action.reason for action in self.taken if isinstance(action, a.EmitEvent)]

    def condition(self, kind: ConditionType) -> Condition:
        return next(each for each in self.resource.status.conditions if each.type is kind)

    def recommend(self, value: int) -> None:
        """An analyzer recommends so many replicas of everything."""
        told = Recommendation(
            value=value, observed_at=self.now, generation=self.resource.generation
        )
        status = replace(self.resource.status, nfr_recommendations={REPLICAS: told})
        self.resource = replace(self.resource, status=status)

    def taken_of(self, kind: type) -> list[Any]:
        return [action for action in self.taken if isinstance(action, kind)]

    # --- what people and chance do ---------------------------------------------------------------

    def declare(self, **spec: Any) -> None:
        """A person applies another spec."""
        changed = declared(self.resource.name, **spec)
        if changed != self.resource.spec:
            generation = self.resource.generation + 1
            self.resource = replace(self.resource, spec=changed, generation=generation)

    def delete(self) -> None:
        self.resource = replace(self.resource, deleted_at=self.now)

    def lose(self, name: str) -> None:
        """Somebody deletes children of ours."""
        for key in [key for key in self.children if key[1] == name]:
            del self.children[key]

    def plant(self, name: str, kind: ManagedKind = ManagedKind.DEPLOYMENT) -> None:
        """A child with our owner's label that no spec names."""
        self.children[kind, name] = ModelChild(kind=kind, name=name)

    # --- the substrate ---------------------------------------------------------------------------

    def observe(self) -> Observed:
        for key, child in list(self.children.items()):
            if child.gone_at is not None and child.gone_at <= self.now:
                del self.children[key]
        listings: dict[ManagedKind, Listing] = {}
        for kind in TEMPLATES[self.resource.spec.template].managed:
            if kind in self.unlisted:
                listings[kind] = Unknown("the server is away")
            else:
                listings[kind] = Known(
                    tuple(self._seen(each) for each in self.children.values() if each.kind is kind)
                )
        return Observed(children=listings)

    def _seen(self, child: ModelChild) -> Child:
        age_ms = self.now - child.told_at
        is_up = age_ms >= self.start_ms and child.command not in ("crash", "hang")
        restarts = age_ms // CRASH_EVERY_MS if child.command == "crash" else 0
        up = child.replicas if is_up and child.gone_at is None else 0
        return Child(
            kind=child.kind,
            name=child.name,
            owner=self.resource.name,
            function_key=child.function_key,
            revision=child.revision,
            desired=child.replicas,
            current=child.replicas,
            updated=child.replicas,
            ready=up,
            crash=Crash(f"{child.name}/0", restarts, ("boom",)) if restarts else None,
            is_deleting=child.gone_at is not None,
        )

    def _apply(self, workload: Workload) -> None:
        for kind in (*workload.kinds, *workload.companions):
            known = self.children.get((kind, workload.name))
            is_same = known is not None and known.revision == workload.revision
            self.children[kind, workload.name] = ModelChild(
                kind=kind,
                name=workload.name,
                function_key=workload.function_key,
                command=workload.command[0],
                revision=workload.revision,
                replicas=workload.replicas,
                told_at=known.told_at if known is not None and is_same else self.now,
            )

    def _remove(self, refs: tuple[ResourceRef, ...]) -> None:
        for ref in refs:
            child = self.children.get((ManagedKind(ref.kind), ref.name))
            if child is not None and child.gone_at is None and not self.is_undeletable:
                child.gone_at = self.now + self.stop_ms

    # --- the loop --------------------------------------------------------------------------------

    def look(self) -> EvalOutput:
        """One round: observe, evaluate, reduce, act. What is written goes through its bytes."""
        resource = self.resource
        output = evaluate(
            EvalInput(
                resource=resource,
                observed=self.observe(),
                now=self.now,
                descriptor=TEMPLATES[resource.spec.template],
                config=DEFAULT_CONFIG,
            )
        )
        self._write(reduce(resource.status, output, now=self.now))
        self.phases.append(self.phase)
        for action in output.actions:
            self._act(action)
        return output

    def run(self, until: Callable[[], bool], *, rounds: int) -> None:
        """Rounds, each as long after the one before as that one asked, until something is so."""
        for _ in range(rounds):
            output = self.look()
            if self.is_gone or until():
                return
            self.now = Instant(self.now + (output.requeue_after_ms or 1_000))
        raise TimeoutError(f"after {rounds} rounds it is {self.phase}: {self.resource.status}")

    def reach(self, phase: Phase, *, rounds: int = 200) -> None:
        self.run(lambda: self.phase is phase, rounds=rounds)

    def end(self, *, rounds: int = 200) -> None:
        self.run(lambda: self.is_gone, rounds=rounds)

    def _write(self, status: Any) -> None:
        if status is not self.resource.status:
            self.writes += 1
            self.resource = replace(self.resource, status=decode_status(encode_status(status)))

    def _act(self, action: a.Action) -> None:
        self.taken.append(action)
        status = self.resource.status
        match action:
            case a.EnsureFinalizer():
                self.resource = replace(self.resource, finalizers=(FINALIZER,))
            case a.ApplyWorkload():
                code = self.refusals.pop(0) if self.refusals else ApplyCode.OK
                for workload in action.workloads if code == ApplyCode.OK else ():
                    self._apply(workload)
                outcome = a.ApplyOutcome(
                    generation=action.generation, code=code, message="" if code == "ok" else "no"
                )
                self._write(record_apply(status, outcome, now=self.now))
            case a.DeleteOrphans(children=refs) | a.DeleteChildren(children=refs):
                self._remove(refs)
            case a.EnsureMetricsTargets(targets=targets):
                self._write(record_metrics(status, names_of(targets), now=self.now))
            case a.RemoveFinalizer():
                self.resource = replace(self.resource, finalizers=())
                self.is_gone = True
            case a.Enforce():
                self._enforce(action)
            case a.EmitEvent():
                pass

    def _enforce(self, action: a.Enforce) -> None:
        reason = self.enforcement_refusals.pop(0) if self.enforcement_refusals else ""
        outcome = a.EnforcementOutcome(
            key=action.key, component=action.component, dimension=action.dimension,
            function_key=action.function_key, target=action.target, basis=action.basis,
            confidence=action.confidence, cooldown_until=action.cooldown_until, at=self.now,
            reason=reason, message="no" if reason else "",
        )  # fmt: skip
        self._write(apply_enforcement(self.resource.status, outcome, now=self.now))
        if not reason and action.dimension == REPLICAS:
            for workload in TEMPLATES[self.resource.spec.template].render(self.resource):
                if workload.function_key == action.function_key:
                    self._apply(workload)
