"""Holdfast's own workers as a place where runtimes run: what is seen there, and how it is changed.

A deployment is a resource beside the runtime, and its replicas are tasks of service jobs with the
owner's label. Its service is the endpoints under its name. Nothing here takes time: what is seen
is this coordinator's own state, and what is done is a command to it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.reconciling.crashes import Crashes
from holdfast.coordinator.reconciling.deployment import (
    KIND,
    Memory,
    encode_memory,
    encode_workload,
    label_of,
    memory_of,
    workload_problem,
)
from holdfast.coordinator.reconciling.grids import NOT_ASKED, Grids
from holdfast.coordinator.reconciling.holdings import Holdings
from holdfast.coordinator.reconciling.loads import Loads
from holdfast.coordinator.reconciling.replicas import NO_WORKER, Stood
from holdfast.coordinator.reconciling.tending import Tended, Tender, done
from holdfast.core import commands as c
from holdfast.core import commands_resources as r
from holdfast.core.decision import Reason, Refused
from holdfast.core.ids import Instant
from holdfast.core.task import TaskState
from holdfast.core.unreadable import UNREADABLE
from holdfast.runtimes.actions import (
    ApplyWorkload,
    DeleteChildren,
    DeleteOrphans,
    Enforce,
    EnsureMetricsTargets,
)
from holdfast.runtimes.descriptor import TemplateDescriptor
from holdfast.runtimes.observed import (
    Child,
    Crash,
    Known,
    Listing,
    ManagedKind,
    Observed,
    Unknown,
)
from holdfast.runtimes.partitions import Picture
from holdfast.runtimes.passing import enforcement_of
from holdfast.runtimes.ports import DONE, Deed, Outcome
from holdfast.runtimes.reduce import apply_enforcement
from holdfast.runtimes.resource import COMPONENT_LABEL, FUNCTION_LABEL, ODGM, Resource
from holdfast.runtimes.status import ApplyCode, ResourceRef, Router
from holdfast.runtimes.workload import Workload

PROBLEMS_MOST = 3
"""So many different reasons for not being ready are told of one child."""

UNHEARD: Final = Unknown("the workers have not told yet what they still end of it")

KINDS: Final = {
    ODGM: (ManagedKind.ODGM_DEPLOYMENT, ManagedKind.ODGM_SERVICE),
}
FUNCTION_KINDS: Final = (ManagedKind.DEPLOYMENT, ManagedKind.SERVICE)

CODES: Mapping[Reason, ApplyCode] = {
    Reason.INVALID: ApplyCode.INVALID,
    Reason.TOO_LARGE: ApplyCode.INVALID,
    Reason.CONFLICT: ApplyCode.CONFLICT,
}
"""What a refused command is to a runtime; everything else may pass by waiting."""


class LocalSubstrate:
    def __init__(
        self,
        coordinator: Coordinator,
        holdings: Holdings,
        tender: Tender,
        crashes: Crashes,
        loads: Loads,
        grids: Grids,
        descriptors: Mapping[str, TemplateDescriptor],
    ) -> None:
        self._coordinator = coordinator
        self._state = coordinator.state
        self._holdings = holdings
        self._tender = tender
        self._crashes = crashes
        self._loads = loads
        self._grids = grids
        self._descriptors = descriptors

    # --- seeing ---------------------------------------------------------------------------------

    def observe(self, resource: Resource, told: Callable[[Observed], None]) -> None:
        now = self._coordinator.now()
        children: dict[ManagedKind, list[Child]] = {
            kind: [] for kind in self._descriptors[resource.spec.template].managed
        }
        tended: list[Tended] = []
        try:
            for name in self._holdings.names(resource.name):
                for child in self._children(resource.name, name, now, tended):
                    children.setdefault(child.kind, []).append(child)
        except UNREADABLE as error:
            # Written by a version that knows more than this one: nothing is known of it here.
            told(Observed(children={kind: Unknown(str(error)) for kind in children}))
            return
        leaving = self._tender.leaving
        if not any(children.values()) and leaving.is_unheard(resource.name, now):
            told(Observed(children=dict.fromkeys(children, UNHEARD)))
            return
        if left := leaving.left_of(resource.name):
            child = Child(
                kind=ManagedKind.DEPLOYMENT, name=resource.name, owner=resource.name, current=left,
                is_deleting=True,
            )  # fmt: skip
            children.setdefault(child.kind, []).append(child)
        listings: dict[ManagedKind, Listing] = {
            kind: Known(tuple(found)) for kind, found in children.items()
        }
        load_percent, memory_percent = self._loads.shares(
            replica for each in tended for replica in each.replicas
        )
        picture = self._picture(tended, now)
        told(
            Observed(
                children=listings,
                partitions=picture.partitions,
                telling=picture.telling,
                load_percent=load_percent,
                memory_usage_percent=memory_percent,
            )
        )

    def _picture(self, tended: Iterable[Tended], now: Instant) -> Picture:
        for found in tended:
            if found.workload.component == ODGM:
                return self._grids.seen(found.workload, found.replicas, now)
        return NOT_ASKED

    def routers(self, resource: Resource) -> tuple[Router, ...]:
        endpoints = self._state.endpoints
        return tuple(
            Router(name, self._addresses(name))
            for name in self._holdings.names(resource.name)
            if name in endpoints
        )

    def _addresses(self, name: str) -> tuple[str, ...]:
        return tuple(
            endpoint.address
            for task in self._state.endpoints.get(name, {}).values()
            for endpoint in task.endpoints
            if endpoint.name == name
        )

    def _children(
        self, owner: str, name: str, now: Instant, tended: list[Tended]
    ) -> Iterator[Child]:
        found = self._tender.look(name, now)
        if found is None:
            yield from self._rest(owner, name)
            return
        tended.append(found)
        workload = found.workload
        kind, service = KINDS.get(workload.component, FUNCTION_KINDS)
        yield self._deployment(owner, found, kind, now)
        addresses = self._addresses(name)
        if addresses:
            yield Child(
                kind=service,
                name=name,
                owner=owner,
                function_key=workload.function_key,
                desired=workload.replicas,
                current=len(addresses),
                ready=len(addresses),
            )

    def _rest(self, owner: str, name: str) -> Iterator[Child]:
        """What is left of a deployment that was taken away: jobs, and processes in their grace."""
        jobs = self._holdings.jobs(name)
        leaving = self._tender.leaving.count(name)
        if jobs or leaving:
            component = label_of(jobs[0].spec, COMPONENT_LABEL) if jobs else ""
            key = label_of(jobs[0].spec, FUNCTION_LABEL) if jobs else ""
            kind, _ = KINDS.get(component, FUNCTION_KINDS)
            yield Child(
                kind=kind, name=name, owner=owner, function_key=key, current=leaving,
                is_deleting=True,
            )  # fmt: skip

    def _deployment(self, owner: str, found: Tended, kind: ManagedKind, now: Instant) -> Child:
        workload, replicas = found.workload, found.replicas
        new = [each for each in replicas if each.revision == workload.revision]
        # While others make room, one of the newest revision counts when it can take over.
        is_rolling = len(new) < len(replicas)
        updated = sum(each.is_ready for each in new) if is_rolling else len(new)
        return Child(
            kind=kind,
            name=workload.name,
            owner=owner,
            function_key=workload.function_key,
            revision=workload.revision,
            desired=workload.replicas,
            current=len(replicas),
            updated=updated,
            ready=sum(each.is_ready for each in replicas),
            crash=self._crash(new),
            problems=self._problems(found, now),
            rollout=found.round(0, now).progress if is_rolling else None,
            leaving=self._tender.leaving.count(workload.name),
        )

    def _problems(self, found: Tended, now: Instant) -> tuple[str, ...]:
        """Why they are not ready, each reason once."""
        told = dict.fromkeys(each.problem for each in found.replicas if each.problem)
        if found.workload.replicas > len(found.replicas) and found.site.problem:
            told[found.site.problem] = None
        if NO_WORKER in told and found.site.worker:
            lacking = found.site.problem or self._tender.sites.lacking(found.site.worker)
            told = {lacking if text == NO_WORKER and lacking else text: None for text in told}
        if any(each.state is TaskState.WAITING for each in found.replicas):
            avoided = self._tender.sites.avoided(found.workload, found.site, now)
            told |= {avoided: None} if avoided else {}
        return tuple(told)[:PROBLEMS_MOST]

    def _crash(self, replicas: Iterable[Stood]) -> Crash | None:
        """The replica that fared worst of those that are down, or have only just come back."""
        down = [each for each in replicas if each.restarts and not each.is_steady]
        if not down:
            return None
        worst = max(down, key=lambda each: (each.restarts, each.name))
        return Crash(worst.name, worst.restarts, self._crashes.lines(worst))

    # --- changing -------------------------------------------------------------------------------

    def act(self, resource: Resource, deed: Deed, told: Callable[[Outcome], None]) -> None:
        match deed:
            case ApplyWorkload(workloads=workloads):
                told(self._apply(workloads))
            case Enforce():
                told(self._apply(self._enforced(resource, deed)))
            case DeleteOrphans(children=children) | DeleteChildren(children=children):
                told(self._delete(children))
            case EnsureMetricsTargets(targets=targets):
                told(self._scrape(resource, {target.name for target in targets}))

    def _apply(self, workloads: Iterable[Workload]) -> Outcome:
        for workload in workloads:
            problem = workload_problem(workload)
            if problem:
                return Outcome(ApplyCode.INVALID, problem)
            content = encode_workload(workload)
            outcome = self._do(r.PutResource(kind=KIND, name=workload.name, spec=content))
            if outcome is not DONE:
                return outcome
        return DONE

    def _enforced(self, resource: Resource, deed: Enforce) -> tuple[Workload, ...]:
        """What is to be told: what the template makes of the runtime once this is enforced."""
        now = self._coordinator.now()
        status = apply_enforcement(resource.status, enforcement_of(deed, DONE, now), now=now)
        descriptor = self._descriptors[resource.spec.template]
        return tuple(
            workload
            for workload in descriptor.render(replace(resource, status=status))
            if workload.component == deed.component
            and (not deed.function_key or workload.function_key == deed.function_key)
        )

    def _delete(self, children: Iterable[ResourceRef]) -> Outcome:
        for name in dict.fromkeys(ref.name for ref in children):
            if (KIND, name) in self._state.resources:
                outcome = self._do(r.MarkResourceDeleted(kind=KIND, name=name))
                if outcome is not DONE:
                    return outcome
            self._tender.queue.add(name)
        return DONE

    def _scrape(self, resource: Resource, wanted: set[str]) -> Outcome:
        for name in self._holdings.names(resource.name):
            stored = self._state.resources.get((KIND, name))
            if stored is None:
                continue
            memory = Memory(progress=memory_of(stored).progress, is_scraped=name in wanted)
            content = encode_memory(memory)
            outcome = self._do(r.PutResourceStatus(kind=KIND, name=name, status=content))
            if outcome is not DONE:
                return outcome
        return DONE

    def _do(self, command: c.Command) -> Outcome:
        decision = done(self._coordinator, command)
        if not isinstance(decision, Refused):
            return DONE
        return Outcome(CODES.get(decision.code, ApplyCode.FAILED), decision.message)
