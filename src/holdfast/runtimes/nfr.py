"""What non-functional requirements ask of a runtime at one look: what to enforce, what to tell,
when to look again, and how `NfrEnforced` stands.

One decision a dimension and component (`enforcing.decide`). A failed enforcement leaves the phase
as it is and says so in the condition; the third in a row degrades the runtime, with the reason of
that failure, until one succeeds or there is nothing left to enforce.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Final

from holdfast.core.ids import Instant
from holdfast.runtimes.actions import NfrJudgement
from holdfast.runtimes.enforcing import NfrInput, Rules, decide
from holdfast.runtimes.gates import LEADER_STEADY_MS, Situation, is_followed
from holdfast.runtimes.judgement import MODES, NOTHING_RECOMMENDED, Judging, Subject
from holdfast.runtimes.observed import ManagedKind, Observed, Telling, Unknown
from holdfast.runtimes.paths import Way, Ways
from holdfast.runtimes.resource import FUNCTION, ODGM, Resource
from holdfast.runtimes.spec import CPU, MEMORY, ODGM_REPLICAS, REPLICAS, Function, Mode, Nfr
from holdfast.runtimes.status import (
    Enforced,
    Phase,
    Recommendation,
    Stability,
    parse_target_key,
)
from holdfast.runtimes.stillness import Shortcut, still
from holdfast.runtimes.workload import Workload

TOLD: Final[Mapping[str, Callable[[Workload], int]]] = {
    REPLICAS: attrgetter("replicas"),
    ODGM_REPLICAS: attrgetter("replicas"),
    MEMORY: attrgetter("memory_bytes"),
    CPU: attrgetter("cpus_milli"),
}
"""What a child is told now: what was enforced before, else what is declared. A child that was told
something else meanwhile is brought back by applying its workload, not by enforcing it anew."""

DECLARED: Final[Mapping[str, Callable[[Function], int]]] = {
    REPLICAS: attrgetter("replicas"),
    MEMORY: attrgetter("resources.memory"),
    CPU: attrgetter("resources.cpu"),
}
"""What the spec says of a function."""

NOT_ENFORCED: Final = Enforced()


def judge(
    resource: Resource,
    phase: Phase,
    observed: Observed,
    workloads: tuple[Workload, ...],
    *,
    now: Instant,
    troubles: tuple[str, ...] = (),
    shortcut: Shortcut = still,
) -> NfrJudgement:
    """All decisions of one look. `phase` is what the runtime is in without regard to enforcement;
    `troubles` are the reasons, should that be degraded. A `shortcut` knows what `decide` would
    say of what holds as it did, or says that it does not know."""
    status, nfr = resource.status, resource.spec.nfr
    if not status.enforced and (nfr.mode in MODES or not status.nfr_recommendations):
        reason, message = MODES.get(nfr.mode, NOTHING_RECOMMENDED)
        return NfrJudgement(reason=reason, message=message)
    looking = _Looking(resource, phase, observed, now, troubles)
    judging = Judging()
    looking.look(workloads, shortcut, judging)
    return judging.made(nfr.mode)


# --- from the declaration to the looks ----------------------------------------------------------


class _Aspect:
    """One dimension of all components that have it. Those that declare the same of it have the
    same rules."""

    def __init__(self, resource: Resource, dimension: str) -> None:
        self.dimension = dimension
        self.told = TOLD[dimension]
        self.declared = declared_by_function(resource, dimension)
        self.rules: dict[int, Rules] = {}


class _Looking:
    """What is the same for all dimensions of all components at one look, found once: the
    dimensions of each component that something is wanted of, or was done to, and more."""

    def __init__(
        self,
        resource: Resource,
        phase: Phase,
        observed: Observed,
        now: Instant,
        troubles: tuple[str, ...],
    ) -> None:
        nfr, self._status = resource.spec.nfr, resource.status
        self._resource = resource
        self._phase = phase
        self._now = now
        self._troubles = troubles
        self._ways = Ways(observed)
        self._observed = observed
        self._known_situation: Situation | None = None
        self._is_followed = is_followed(phase, troubles)
        self._aspects: dict[str, list[_Aspect]] = {FUNCTION: [], ODGM: []}
        touched = {parse_target_key(key)[0] for key in self._status.enforced}
        for dimension in TOLD:
            if dimension in touched or is_wanted(nfr, dimension):
                component = ODGM if dimension == ODGM_REPLICAS else FUNCTION
                self._aspects[component].append(_Aspect(resource, dimension))

    def look(
        self, workloads: tuple[Workload, ...], shortcut: Shortcut, judging: Judging
    ) -> None:
        """Decide about each dimension of each component of which there is something to decide."""
        status, now, generation = self._status, self._now, self._resource.generation
        enforced_of, advice_of = status.enforced.get, status.nfr_recommendations.get
        known_of = status.stability.get
        for workload in workloads:
            function_key = workload.function_key
            for aspect in self._aspects[workload.component]:
                dimension = aspect.dimension
                key = f"{dimension}/{function_key}" if function_key else dimension
                enforced = enforced_of(key)
                # What is recommended for one function, else what is recommended for all alike.
                advice = advice_of(key) or advice_of(dimension)
                if enforced is None and advice is None:
                    continue
                told = aspect.told(workload)
                # What asks for nothing, because of its template, cannot be tuned either.
                declared = aspect.declared.get(function_key, 0) if told else 0
                rules = aspect.rules.get(declared) or self._rules(aspect, declared)
                is_enforced = rules.mode == "enforce"
                if enforced is None:
                    if not is_enforced:
                        continue
                    enforced = NOT_ENFORCED
                known = known_of(key)
                way = self._ways.of(workload.kinds + workload.companions, function_key)
                if (
                    advice is not None
                    and known is not None
                    and is_enforced
                    and declared > 0
                    and self._is_followed
                    and type(way) is Way
                ):
                    found = shortcut(rules, advice, known, enforced, told, generation, now)
                    if found is not None:
                        judging.still(key, found, known, rules)
                        continue
                look = self._input(aspect, rules, advice, declared, told, way, known, enforced)
                judging.add(Subject(key, workload, look, decide(look)))

    def _input(
        self,
        aspect: _Aspect,
        rules: Rules,
        advice: Recommendation | None,
        declared: int,
        told: int,
        way: Way | Unknown | None,
        known: Stability | None,
        enforced: Enforced,
    ) -> NfrInput:
        return NfrInput(
            dimension=aspect.dimension,
            rules=rules,
            phase=self._phase,
            troubles=self._troubles,
            recommendation=advice,
            generation=self._resource.generation,
            declared=declared,
            actual=told if isinstance(way, Way) else None,
            is_autoscaled=isinstance(way, Way) and way.path.kind is ManagedKind.HPA,
            replicas_ready=way.child.ready if isinstance(way, Way) else None,
            replicas_leaving=way.child.leaving if isinstance(way, Way) else 0,
            stability=known,
            enforced=enforced,
            situation=self._situation(),
            now=self._now,
        )

    def _situation(self) -> Situation:
        if self._known_situation is None:
            self._known_situation = _situation(self._resource, self._observed, self._now)
        return self._known_situation

    def _rules(self, aspect: _Aspect, declared: int) -> Rules:
        made = rules_of(self._resource.spec.nfr, aspect.dimension, declared)
        return aspect.rules.setdefault(declared, made)


def is_wanted(nfr: Nfr, dimension: str) -> bool:
    return nfr.mode == "enforce" and dimension in nfr.dimensions


def declared_by_function(resource: Resource, dimension: str) -> dict[str, int]:
    """What the spec says of one dimension, by the key of the function; the data grid has none."""
    spec = resource.spec
    if dimension == ODGM_REPLICAS:
        return {"": spec.odgm.replicas} if spec.odgm is not None and spec.odgm.enabled else {}
    declared = DECLARED[dimension]
    return {function.key: declared(function) for function in spec.functions}


def declared_of(resource: Resource, dimension: str, function_key: str) -> int:
    """What the spec says of one dimension; zero where it says nothing, or does not know it."""
    return declared_by_function(resource, dimension).get(function_key, 0)


def rules_of(nfr: Nfr, dimension: str, declared: int) -> Rules:
    """A dimension that is not listed is observed at most. Bounds of replicas do not bound memory
    or processors."""
    mode: Mode = "observe" if nfr.mode == "enforce" else nfr.mode
    if is_wanted(nfr, dimension):
        mode = "enforce"
    counted = dimension in {REPLICAS, ODGM_REPLICAS}
    most = nfr.max_replicas if nfr.max_replicas is not None else max(declared, nfr.min_replicas)
    return Rules(
        mode=mode,
        low=nfr.min_replicas if counted else 1,
        high=most if counted else None,
        stability_ms=nfr.stability,
        cooldown_ms=nfr.cooldown,
        stale_after_ms=nfr.stale_after,
        step_down=nfr.max_step_down,
        enforce_in=nfr.enforce_in,
    )


def _situation(resource: Resource, observed: Observed, now: Instant) -> Situation:
    nfr, odgm = resource.spec.nfr, resource.spec.odgm
    asked = odgm.partition_health if odgm is not None else None
    telling = observed.telling
    if asked is None and observed.partitions is None:
        telling = Telling(doubt="spec.odgm.partitionHealth is not set")
    return Situation(
        now=now,
        confidence_min=nfr.min_confidence,
        memory_used_percent=observed.memory_usage_percent,
        memory_percent_max=nfr.max_memory_usage,
        load_percent=observed.load_percent,
        load_percent_max=nfr.max_load,
        partitions=observed.partitions,
        partitions_declared=odgm.partitions if odgm is not None and asked is not None else 0,
        telling=telling,
        leader_steady_ms=LEADER_STEADY_MS if asked is None else int(asked.leader_steady),
    )
