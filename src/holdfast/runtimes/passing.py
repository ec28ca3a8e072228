"""One pass over one runtime: observe, judge, write down, act, write down what came of it."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.core.ids import Instant
from holdfast.runtimes.actions import (
    Action,
    ApplyOutcome,
    ApplyWorkload,
    EmitEvent,
    Enforce,
    EnforcementOutcome,
    EnsureFinalizer,
    EnsureMetricsTargets,
    RemoveFinalizer,
)
from holdfast.runtimes.descriptor import TemplateDescriptor
from holdfast.runtimes.evaluate import evaluate, names_of
from holdfast.runtimes.evaluation import ControllerConfig, EvalInput
from holdfast.runtimes.gates import is_followed
from holdfast.runtimes.judgement import event_of
from holdfast.runtimes.observed import Observed
from holdfast.runtimes.paths import failure_of
from holdfast.runtimes.ports import DONE, Analyzer, Clock, Deed, Outcome, Store, Substrate
from holdfast.runtimes.reduce import (
    apply_enforcement,
    record_apply,
    record_metrics,
    record_recommendations,
    reduce,
    refresh_routers,
)
from holdfast.runtimes.resource import FINALIZER, Resource
from holdfast.runtimes.spec import Nfr, Spec
from holdfast.runtimes.status import (
    ApplyCode,
    ConditionType,
    Enforced,
    Recommendation,
    Status,
    condition_of,
)
from holdfast.runtimes.tally import Tally
from holdfast.runtimes.workload import Workload

WRITES_TRIED: Final = 5
"""So often an outcome is reduced into what somebody else wrote meanwhile, before it has to wait."""

Rendered = tuple[Spec, dict[str, Enforced], tuple[Workload, ...]]


class Surroundings(Struct, kw_only=True):
    """What every pass works with. `rendered` keeps what a descriptor made of a resource, as long as
    that would come to the same."""

    store: Store
    substrate: Substrate
    analyzers: Mapping[str, Analyzer]
    clock: Clock
    descriptors: Mapping[str, TemplateDescriptor]
    config: ControllerConfig
    tally: Tally
    rendered: dict[str, Rendered] = field(default_factory=dict)

    def workloads(
        self, resource: Resource, descriptor: TemplateDescriptor
    ) -> tuple[Workload, ...]:
        spec, enforced = resource.spec, resource.status.enforced
        known = self.rendered.get(resource.name)
        # Not by generation: one that is deleted and declared anew begins with the first again.
        if known is not None and known[0] is spec and known[1] == enforced:
            return known[2]
        workloads = descriptor.render(resource)
        self.rendered[resource.name] = (spec, enforced, workloads)
        return workloads

    def forget(self, name: str) -> None:
        self.rendered.pop(name, None)
        self.tally.forget(name)


class Pass:
    """What it came to is in its fields when `over` is called, which happens once."""

    def __init__(
        self, name: str, surroundings: Surroundings, over: Callable[["Pass"], None]
    ) -> None:
        self.name = name
        self.is_gone = False
        self.has_changed = False
        self.has_failed = False
        self.is_analyzed = False
        self.requeue_after_ms: int | None = None
        self._with = surroundings
        self._over = over
        self._actions: list[Action] = []

    def begin(self) -> None:
        resource = self._with.store.read(self.name)
        if resource is None:
            self.is_gone = True
            self._over(self)
            return
        descriptor = self._with.descriptors.get(resource.spec.template)
        if descriptor is None:
            # Declared where there was such a template: it is left as it is until there is again.
            self._fail()
            return
        self._with.substrate.observe(
            resource, lambda observed: self._observed(resource, descriptor, observed)
        )

    # --- from what is seen to what is said ------------------------------------------------------

    def _observed(
        self, resource: Resource, descriptor: TemplateDescriptor, observed: Observed
    ) -> None:
        analyzer = self._with.analyzers.get(analyzer_of(resource.spec.nfr) or "")
        if analyzer is None or not is_listened_to(resource):
            self._judge(resource, descriptor, observed, {})
            return
        self.is_analyzed = True
        analyzer.recommend(
            resource,
            observed,
            self._with.clock.now(),
            lambda told: self._judge(resource, descriptor, observed, told),
        )

    def _judge(
        self,
        resource: Resource,
        descriptor: TemplateDescriptor,
        observed: Observed,
        recommended: Mapping[str, Recommendation],
    ) -> None:
        now, known = self._with.clock.now(), resource
        if recommended:
            stale_after_ms = int(resource.spec.nfr.stale_after)
            status = record_recommendations(
                resource.status, recommended, stale_after_ms=stale_after_ms, now=now
            )
            known = replace(resource, status=status)
        output = evaluate(
            EvalInput(
                resource=known,
                observed=observed,
                now=now,
                descriptor=descriptor,
                config=self._with.config,
                workloads=self._with.workloads(known, descriptor),
            )
        )
        status = reduce(known.status, output, now=now)
        status = refresh_routers(status, self._with.substrate.routers(resource), now=now)
        self._actions = list(reversed(output.actions))
        self.requeue_after_ms = output.requeue_after_ms
        if status is resource.status:
            self._with.tally.seen(self.name, status)
            self._act()
            return

        def told(is_written: bool) -> None:
            if not is_written:
                # It was judged by what no longer holds: look again.
                self.has_changed = True
                self._over(self)
                return
            self.has_changed = True
            self._with.tally.moved(self.name, resource.status.phase, status)
            self._act()

        self._with.store.put_status(self.name, status, resource.version, told)

    # --- from what is said to what is done ------------------------------------------------------

    def _act(self) -> None:
        """Go on with the next action, or end."""
        while self._actions:
            action = self._actions.pop()
            if isinstance(action, EmitEvent):
                self._with.store.emit(self.name, action, self._with.clock.now())
                continue
            resource = self._with.store.read(self.name)
            if resource is None:
                break
            self.has_changed = True
            if isinstance(action, EnsureFinalizer | RemoveFinalizer):
                self._hold(resource, is_held=isinstance(action, EnsureFinalizer))
            else:
                self._do(resource, action)
            return
        self._over(self)

    def _hold(self, resource: Resource, *, is_held: bool) -> None:
        others = tuple(name for name in resource.finalizers if name != FINALIZER)
        finalizers = (*others, FINALIZER) if is_held else others
        self._with.store.set_finalizers(
            self.name, finalizers, resource.version, self._act_if_written
        )

    def _act_if_written(self, is_written: bool) -> None:
        if is_written:
            self._act()
        else:
            self._over(self)

    def _do(self, resource: Resource, deed: Deed) -> None:
        since = self._with.clock.now()
        if isinstance(deed, Enforce) and deed.is_release:
            self._done(deed, DONE, since)
            return
        self._with.substrate.act(
            resource, deed, lambda outcome: self._done(deed, outcome, since)
        )

    def _done(self, deed: Deed, outcome: Outcome, since: Instant) -> None:
        now = self._with.clock.now()
        match deed:
            case ApplyWorkload(generation=generation):
                applied = ApplyOutcome(
                    generation=generation, code=outcome.code, message=outcome.message
                )
                self._write(lambda status: record_apply(status, applied, now=now))
            case EnsureMetricsTargets(targets=targets) if outcome.code is ApplyCode.OK:
                self._write(lambda status: record_metrics(status, names_of(targets), now=now))
            case Enforce():
                enforced = enforcement_of(deed, outcome, now)
                self._with.tally.enforced(enforced, now - since)
                self._with.store.emit(self.name, event_of(enforced), now)
                self._write(lambda status: apply_enforcement(status, enforced, now=now))
            case _:
                # What is deleted shows in what is observed, and in nothing else.
                self._act()

    def _write(self, change: Callable[[Status], Status], tries: int = WRITES_TRIED) -> None:
        """Reduce an outcome into the newest status there is, whoever wrote it."""
        resource = self._with.store.read(self.name)
        if resource is None or (status := change(resource.status)) is resource.status:
            self._act()
            return

        def told(is_written: bool) -> None:
            if is_written:
                self._act()
            elif tries > 1:
                self._write(change, tries - 1)
            else:
                self._fail()

        self._with.store.put_status(self.name, status, resource.version, told)

    def _fail(self) -> None:
        self.has_failed = True
        self._over(self)


def analyzer_of(declared: Nfr) -> str | None:
    """Who recommends for a runtime; None where nobody is asked."""
    if declared.mode == "off":
        return None
    told = declared.analyzer
    for name in ("static", "prometheus", "workers"):
        if getattr(told, name) is not None:
            return name
    return None


def is_listened_to(resource: Resource) -> bool:
    """Whether recommendations are recorded for a runtime that is where this one is."""
    if resource.deleted_at is not None:
        return False
    degraded = condition_of(resource.status, ConditionType.DEGRADED)
    troubles = (degraded.reason,) if degraded is not None and degraded.is_true else ()
    return is_followed(resource.status.phase, troubles)


def enforcement_of(deed: Enforce, outcome: Outcome, now: Instant) -> EnforcementOutcome:
    """What is recorded of an enforcement."""
    reason, message = "", ""
    if outcome.code is not ApplyCode.OK:
        reason, message = failure_of(
            outcome.code, outcome.message, was_fallback=outcome.was_fallback
        )
    return EnforcementOutcome(
        key=deed.key,
        component=deed.component,
        dimension=deed.dimension,
        function_key=deed.function_key,
        target=deed.target,
        basis=deed.basis,
        confidence=deed.confidence,
        cooldown_until=deed.cooldown_until,
        at=now,
        reason=reason,
        message=message,
    )
