"""How busy and how full replicas are, from what their workers measured of late."""

from collections.abc import Iterable
from typing import Protocol

from holdfast.coordinator.reconciling.replicas import Stood
from holdfast.coordinator.servicing import Sampled
from holdfast.core.ids import LeaseId
from holdfast.core.state import State
from holdfast.runtimes.written import WHOLE


class Samples(Protocol):
    def samples(self, lease_id: LeaseId) -> tuple[Sampled, ...]: ...


class Loads:
    def __init__(self, state: State, samples: Samples) -> None:
        self._state = state
        self._samples = samples

    def latest(self, replica: Stood) -> Sampled | None:
        found = self._samples.samples(replica.lease_id) if replica.lease_id else ()
        return found[-1] if found else None

    def shares(self, replicas: Iterable[Stood]) -> tuple[int | None, int | None]:
        """The processor time and the memory that are used of what was asked for, in percent; None
        where nobody measured, or nothing was asked for."""
        cpu = memory = cpu_asked = memory_asked = 0
        for replica in replicas:
            sampled, job = self.latest(replica), self._state.jobs.get(replica.job_id)
            if sampled is None or job is None:
                continue
            if job.spec.cpus_milli:
                cpu += sampled.sample.cpu_milli
                cpu_asked += job.spec.cpus_milli
            if job.spec.memory_bytes:
                memory += sampled.sample.memory_bytes
                memory_asked += job.spec.memory_bytes
        return (
            WHOLE * cpu // cpu_asked if cpu_asked else None,
            WHOLE * memory // memory_asked if memory_asked else None,
        )
