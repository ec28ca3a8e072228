"""After the storm: everything comes to its end within bounds, and then to rest."""

from typing import Final, Protocol

from holdfast.core.circuit import LONGEST_COOLDOWN_MS
from holdfast.core.job import is_finished
from holdfast.core.state import State
from holdfast.testing.sim.agenda import MILLI, SECOND, Agenda
from holdfast.testing.sim.auditor import Auditor
from holdfast.testing.sim.client import Client
from holdfast.testing.sim.declared import good_names, resting_names, strays, unsettled
from holdfast.testing.sim.oracle import Oracle
from holdfast.testing.sim.plan import Scenario
from holdfast.testing.sim.server import Server
from holdfast.testing.sim.worker import Worker

LOOK_AGAIN_US: Final = SECOND // 2
REST_US: Final = 2 * SECOND
RUNTIMES_MS: Final = 240_000
"""What runtimes may take longer: budgets that refill, deadlines that pass, services that end."""


class Cluster(Protocol):
    """The cluster, as far as it has to come to rest."""

    scenario: Scenario
    agenda: Agenda
    server: Server | None
    clients: list[Client]
    workers: list[Worker]
    oracle: Oracle
    auditor: Auditor
    troubles: list[str]

    def run_until(self, end_us: int) -> None: ...

    def durable(self) -> int: ...


class Calm:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._degraded: set[tuple[str, int]] = set()
        self._written: dict[str, int] = {}
        self._still_since_us = 0

    def settle(self) -> None:
        """Everything comes to its end within bounds, and no lease outlives two terms."""
        cluster, scenario = self._cluster, self._cluster.scenario
        work_ms = scenario.jobs * 20 * (scenario.longest_ms + 2_000) // max(1, scenario.workers)
        # A circuit that the storm opened lets nothing through before its time.
        calm_ms = 10 * scenario.term_ms + 120_000 + LONGEST_COOLDOWN_MS
        calm_ms += RUNTIMES_MS if scenario.runtimes else 0
        bound_us = cluster.agenda.now_us + (calm_ms + work_ms) * MILLI
        calm_us = cluster.agenda.now_us + 3 * scenario.term_ms * MILLI + 10 * SECOND
        expired = 0
        while not cluster.troubles and (unsettled_yet := self._unsettled()):
            if cluster.agenda.now_us >= bound_us:
                cluster.troubles.append(f"V3: after the storm still unsettled: {unsettled_yet}")
                return
            cluster.run_until(cluster.agenda.now_us + LOOK_AGAIN_US)
            if cluster.agenda.now_us <= calm_us:
                expired = cluster.auditor.ends["lease_expired"]
                continue
            cluster.troubles += cluster.auditor.overdue(cluster.agenda.now_us)
            if cluster.auditor.ends["lease_expired"] > expired:
                cluster.troubles.append("V4: a lease ran out though everybody is well")
        if scenario.runtimes and not cluster.troubles:
            self._rest()

    def _rest(self) -> None:
        """Whoever is up and is looked at once more gives nobody anything to write."""
        cluster, server = self._cluster, self._cluster.server
        if server is None or server.reconciling is None:
            return
        until = server.coordinator.now() + 2 * REST_US // MILLI
        names = resting_names(server.coordinator.state, until)
        before = cluster.auditor.declared.writes.copy()
        for name in names:
            server.process.post(server.reconciling.enqueue, name)
        server.process.post(server.engine.soon)
        cluster.run_until(cluster.agenda.now_us + REST_US)
        after = cluster.auditor.declared.writes
        cluster.troubles += [
            f"V6: runtime {name} is at rest and {after[name] - before[name]} records were written"
            for name in names
            if after[name] > before[name]
        ]

    def _unsettled(self) -> list[str]:
        cluster = self._cluster
        if cluster.server is None:
            return ["nobody serves"]
        found = [f"client {client.number}" for client in cluster.clients if not client.is_over]
        state = cluster.server.coordinator.state
        if state.position > cluster.durable():
            # Who comes to judge counts what is in the log, and must not take this for news.
            found.append("what was decided last is not durable")
        found += [
            f"job {job_id}"
            for job_id in cluster.oracle.jobs
            if job_id in state.jobs and not is_finished(state.jobs[job_id])  # type: ignore[index]
        ]
        if cluster.scenario.runtimes:
            found += unsettled(state, self._degraded)
            found += strays(self._programs(), state)
            found += self._restless(state)
        return found

    def _restless(self, state: State) -> list[str]:
        """Whoever holds a lease speaks once a term. So a runtime is at rest when nothing was
        written of it for a term: before, what befell it in the storm may not be told yet."""
        cluster = self._cluster
        now_us, writes = cluster.agenda.now_us, cluster.auditor.declared.writes
        written = {name: writes[name] for name in good_names(state)}
        if written != self._written:
            self._written, self._still_since_us = written, now_us
        is_still = now_us - self._still_since_us >= cluster.scenario.term_ms * MILLI
        return [] if is_still or not written else ["a runtime of which something is written"]

    def _programs(self) -> list[tuple[str, str, int]]:
        return [
            (worker.name, str(run.job_id), int(lease_id))
            for worker in self._cluster.workers
            if worker.programs is not None and worker.process.is_alive
            for lease_id, run in worker.programs.serving().items()
        ]
