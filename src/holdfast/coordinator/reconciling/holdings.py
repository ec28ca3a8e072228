"""Which deployments and which jobs belong to which runtime: an index that can be made again.

It is made by one look over the state and kept by the records that follow. Jobs without the owner's
label cost one look into a dictionary a record, and none where there is no runtime at all.
"""

from collections.abc import Callable, Iterable
from typing import Final

from holdfast.coordinator.reconciling.deployment import KIND as DEPLOYMENT
from holdfast.coordinator.reconciling.deployment import owner_of, workload_of
from holdfast.core import commands as c
from holdfast.core import commands_resources as r
from holdfast.core import events as e
from holdfast.core.ids import JobId
from holdfast.core.job import Job, is_finished
from holdfast.core.record import Record
from holdfast.core.spec import NOT_A_SERVICE, JobSpec
from holdfast.core.state import State
from holdfast.core.unreadable import UNREADABLE
from holdfast.runtimes.descriptor import NAME_JOINT
from holdfast.runtimes.resource import KIND as RUNTIME
from holdfast.runtimes.resource import OWNER_LABEL

Told = Callable[[str, str], None]
"""Hears the name of a runtime and of a deployment of it to which something happened; either may be
empty."""

SILENT: Final = (e.ResourceStatusPut,)
"""What only the loop itself writes: it knows."""


def _nobody(owner: str, name: str) -> None:
    """Nobody has to know."""


class Holdings:
    """`changed` is told of everything that happens to what belongs to a runtime."""

    def __init__(self, state: State) -> None:
        self.changed: Told = _nobody
        self._state = state
        self._deployments: dict[str, dict[str, None]] = {}
        self._owners: dict[str, str] = {}
        # The services that carry an owner's label: by deployment, and whose each is.
        self._jobs: dict[str, dict[JobId, None]] = {}
        self._names: dict[JobId, tuple[str, str]] = {}
        for kind, name in state.resources:
            if kind == DEPLOYMENT:
                self._hold_deployment(name)
        for job in state.jobs.values():
            if job.service is not None and not is_finished(job):
                self._hold_job(job.job_id, job.spec)

    def names(self, owner: str) -> Iterable[str]:
        """The deployments of a runtime: those that were told something, and those that are gone
        and still have jobs."""
        return tuple(self._deployments.get(owner, ()))

    def all_names(self) -> Iterable[str]:
        return tuple(self._owners)

    def owner(self, name: str) -> str:
        return self._owners.get(name, "")

    def jobs(self, name: str) -> list[Job]:
        """The jobs of a deployment that are not over, the oldest first."""
        state, found = self._state, []
        for job_id in tuple(self._jobs.get(name, ())):
            job = state.jobs.get(job_id)
            if job is None or is_finished(job):
                self._let_go(name, job_id)
            else:
                found.append(job)
        return found

    def forget(self, name: str) -> None:
        """Nothing of this deployment is left."""
        owner = self._owners.get(name)
        if owner is None or (DEPLOYMENT, name) in self._state.resources or self._jobs.get(name):
            return
        del self._owners[name]
        siblings = self._deployments[owner]
        del siblings[name]
        if not siblings:
            del self._deployments[owner]

    def note(self, record: Record) -> None:
        """A record was applied."""
        if not self._names and record.command not in TELLING:
            return
        for event in record.events:
            job_id = getattr(event, "job_id", None)
            if job_id is not None:
                if type(event) is e.JobSubmitted and event.spec.service != NOT_A_SERVICE:
                    self._hold_job(job_id, event.spec)
                known = self._names.get(job_id)
                if known is not None:
                    self.changed(*known)
            elif type(event) in RESOURCE_EVENTS:
                self._note_resource(event)

    def note_job(self, job_id: JobId) -> None:
        """A replica of this job stands otherwise than before."""
        known = self._names.get(job_id)
        if known is not None:
            self.changed(*known)

    def _note_resource(self, event: e.AnyEvent) -> None:
        kind, name = getattr(event, "kind", ""), getattr(event, "name", "")
        if kind == RUNTIME:
            if type(event) not in SILENT:
                self.changed(name, "")
            if type(event) is e.ResourceRemoved:
                # What it left behind is nobody's: whoever tends it will see that.
                for child in self.names(name):
                    self.changed("", child)
            return
        if kind != DEPLOYMENT:
            return
        if type(event) is e.ResourcePut:
            self._hold_deployment(name)
        self.changed(self._owners.get(name, ""), name)

    def _hold_deployment(self, name: str) -> None:
        try:
            told = workload_of(self._state.resources[DEPLOYMENT, name])
        except UNREADABLE:
            # Its name says whose it is; what it should be is for a version that can read it.
            self._own(name.partition(NAME_JOINT)[0], name)
            return
        self._own(told.labels.get(OWNER_LABEL, ""), name)

    def _hold_job(self, job_id: JobId, spec: JobSpec) -> None:
        owner = owner_of(spec)
        if owner:
            self._own(owner, spec.name)
            self._jobs.setdefault(spec.name, {})[job_id] = None
            self._names[job_id] = (owner, spec.name)

    def _own(self, owner: str, name: str) -> None:
        # Names of deployments begin with that of their runtime, so no two share one.
        if self._owners.setdefault(name, owner) == owner:
            self._deployments.setdefault(owner, {})[name] = None

    def _let_go(self, name: str, job_id: JobId) -> None:
        self._names.pop(job_id, None)
        left = self._jobs.get(name, {})
        left.pop(job_id, None)
        if not left:
            self._jobs.pop(name, None)


FIRST: Final[tuple[type[c.Command], ...]] = (*r.RESOURCE_COMMANDS, c.SubmitJob)
TELLING: Final = frozenset(command.__name__ for command in FIRST)
"""The commands that can be the first to concern a runtime."""

RESOURCE_EVENTS: Final = frozenset(
    {
        e.ResourcePut,
        e.ResourceLabelled,
        e.ResourceStatusPut,
        e.ResourceFinalizersSet,
        e.ResourceDeletionMarked,
        e.ResourceRemoved,
    }
)
