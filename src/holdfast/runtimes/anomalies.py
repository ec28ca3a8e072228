"""What was observed, held against what should be: readiness of each workload, and what is wrong.

A kind whose listing failed says nothing: no child of it is missing, none is an orphan, and nothing
of it is ready or unready.
"""

from msgspec import Struct

from holdfast.runtimes import reasons
from holdfast.runtimes.descriptor import (
    READY,
    ReadinessResult,
    ReadinessRule,
    TemplateDescriptor,
)
from holdfast.runtimes.observed import Child, Crash, Known, ManagedKind, Observed, listing_of
from holdfast.runtimes.status import ResourceRef
from holdfast.runtimes.workload import Workload


class Judged(Struct, frozen=True, gc=False):
    """One workload: whether it is ready, the child that counts its replicas, and why not.
    `is_unknown`: all that is known of it is ready, but not all is known. `owned` is how many
    children of all kinds are its own."""

    workload: Workload
    child: Child | None
    is_ready: bool
    is_unknown: bool
    reason: str
    message: str
    owned: int


class Missing(Struct, frozen=True, gc=False):
    """A child that should be there. `name` is how it is told: `Deployment/greeter--hello`."""

    name: str
    workload: Workload


class Seen(Struct, frozen=True, kw_only=True):
    """The whole of one look. `outdated` are there and were told something else."""

    judged: tuple[Judged, ...]
    unready: tuple[Judged, ...]
    missing: tuple[Missing, ...]
    outdated: tuple[Workload, ...]
    orphans: tuple[ResourceRef, ...]
    crash: Crash | None
    unknown: tuple[tuple[ManagedKind, str], ...]
    refs: tuple[ResourceRef, ...]

    @property
    def is_ready(self) -> bool:
        return not self.unready

    @property
    def is_unready(self) -> bool:
        """Whether something is known not to be ready."""
        return any(not each.is_unknown for each in self.unready)

    @property
    def is_unseen(self) -> bool:
        """Whether something is not ready only as far as is known."""
        return any(each.is_unknown for each in self.unready)

    @property
    def ready_replicas(self) -> int:
        return sum(each.child.ready for each in self.judged if each.child is not None)


Children = dict[ManagedKind, dict[str, Child]]


def look(
    workloads: tuple[Workload, ...],
    observed: Observed,
    descriptor: TemplateDescriptor,
    *,
    crash_restarts: int,
) -> Seen:
    """What is so. Never fails, whatever was observed."""
    known: Children = {}
    for kind, listing in observed.children.items():
        if isinstance(listing, Known):
            known[kind] = {child.name: child for child in listing.children}
    rules = {rule.kind: rule for rule in descriptor.readiness}
    judged: list[Judged] = []
    unready: list[Judged] = []
    missing: list[Missing] = []
    outdated: list[Workload] = []
    crash: Crash | None = None
    strangers = sum(map(len, known.values()))
    for workload in workloads:
        verdict = _judge(workload, known, rules, observed, missing)
        judged.append(verdict)
        strangers -= verdict.owned
        if not verdict.is_ready:
            unready.append(verdict)
        child = verdict.child
        if child is None:
            continue
        if child.revision != workload.revision or child.desired != workload.replicas:
            outdated.append(workload)
        if crash is None and child.crash is not None and child.crash.restarts >= crash_restarts:
            crash = child.crash
    return Seen(
        judged=tuple(judged),
        unready=tuple(unready),
        missing=tuple(missing),
        outdated=tuple(outdated),
        orphans=_orphans(workloads, known) if strangers else (),
        crash=crash,
        unknown=unknown_kinds(observed, descriptor),
        refs=tuple([ResourceRef(kind, name) for kind in known for name in known[kind]]),
    )


def unknown_kinds(
    observed: Observed, descriptor: TemplateDescriptor
) -> tuple[tuple[ManagedKind, str], ...]:
    """The kinds of this template of which nothing is known, and why."""
    return tuple(
        (kind, listing.error)
        for kind in descriptor.managed
        if not isinstance(listing := listing_of(observed, kind), Known)
    )


def _judge(
    workload: Workload,
    known: Children,
    rules: dict[ManagedKind, ReadinessRule],
    observed: Observed,
    missing: list[Missing],
) -> Judged:
    counted: Child | None = None
    worst: ReadinessResult | None = None
    awaited: ReadinessResult | None = None
    remark = READY
    is_unknown = False
    owned = 0
    for kind in workload.kinds:
        children = known.get(kind)
        if children is None:
            is_unknown = True
            continue
        child = children.get(workload.name)
        if child is None:
            lost = Missing(f"{kind.value}/{workload.name}", workload)
            missing.append(lost)
            told = reasons.message_of(reasons.CHILD_MISSING, child=lost.name)
            worst = worst or ReadinessResult(False, reasons.CHILD_MISSING, told)
            continue
        owned += 1
        counted = counted or child
        result = rules[kind].evaluator(workload, child, observed)
        if result is READY:
            continue
        if result.is_unknown:
            awaited = awaited or result
        elif not result.is_ready:
            worst = worst or result
        elif result.reason:
            remark = result
    for kind in workload.companions:
        children = known.get(kind)
        child = children.get(workload.name) if children else None
        if child is None:
            continue
        owned += 1
        result = rules[kind].evaluator(workload, child, observed)
        if result.is_ready:
            continue
        if rules[kind].contributes_to_available:
            worst = worst or result
        else:
            remark = result
    if worst is not None:
        return Judged(workload, counted, False, False, worst.reason, worst.message, owned)
    if is_unknown:
        failed = reasons.OBSERVATION_FAILED
        return Judged(workload, counted, False, True, failed, "not known", owned)
    if awaited is not None:
        return Judged(workload, counted, False, True, awaited.reason, awaited.message, owned)
    return Judged(workload, counted, True, False, remark.reason, remark.message, owned)


def _orphans(workloads: tuple[Workload, ...], known: Children) -> tuple[ResourceRef, ...]:
    """Children with our owner's label that no workload has. Some leave by themselves already;
    asking again does no harm."""
    found: list[ResourceRef] = []
    for kind, children in known.items():
        if children:
            owned = {
                each.name for each in workloads if kind in each.kinds or kind in each.companions
            }
            found += [ResourceRef(kind, name) for name in sorted(children.keys() - owned)]
    return tuple(found)
