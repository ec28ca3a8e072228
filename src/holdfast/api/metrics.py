"""Numbers for those who draw curves, in the text format that Prometheus reads."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from itertools import product

from holdfast.api.call import Call, Text
from holdfast.api.census import counted
from holdfast.api.metrics_moves import log_told, moves_told
from holdfast.api.metrics_runtimes import runtimes_told
from holdfast.api.prometheus import CONTENT_TYPE, Sample, told
from holdfast.coordinator.checker import Checker
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.deliveries import Deliveries
from holdfast.coordinator.inspect import HistoryGone
from holdfast.coordinator.room import Room
from holdfast.coordinator.shortage import MESSAGES as SHORTAGES
from holdfast.coordinator.stalls import Stalls
from holdfast.core.circuit import FUNCTION, SINK, CircuitState
from holdfast.core.debts import Debts
from holdfast.core.state import State
from holdfast.version import VERSION


async def metrics(call: Call) -> Text:
    """Numbers about this server, for Prometheus."""
    service = call.service
    served = service.served
    census = await counted(call)
    waits = [({"reason": code}, n) for code, n in sorted(census.tasks.items())]
    owed_s = await _owed_for(call)
    durable = await call.ask(lambda coordinator: int(coordinator.durable))
    found = await asyncio.to_thread(served.log.chain_after, durable)
    head = "" if found is None else found.hex()

    def look(coordinator: Coordinator) -> str:
        state = coordinator.state
        leases = sum(len(holder.leases) for holder in state.holders.values())
        alive = sum(map(served.exchanges.registry.is_alive, served.exchanges.workers.values()))
        waiting = sum(map(len, state.ready.queues.values()))
        refusals = [({"code": code}, n) for code, n in coordinator.refusals.items()]
        since = census.ready_since
        ready_s = 0.0 if since is None else max(0, coordinator.now() - since) / 1_000
        answers = [({"status": str(status)}, n) for status, n in service.answered.items()]
        return "".join(
            (
                told(
                    "build_info", "gauge", "Which Holdfast this is.", [({"version": VERSION}, 1)]
                ),
                told("log_position", "gauge", "The last record in memory.", state.position),
                told(
                    "log_durable_position", "gauge", "The last record on disk.", served.log.durable
                ),
                told(
                    "log_written_bytes_total", "counter", "Bytes of records.", coordinator.written
                ),
                told("jobs", "gauge", "Jobs in memory.", len(state.jobs)),
                told("jobs_open", "gauge", "Jobs that are still fed.", len(state.open_jobs)),
                told("jobs_waiting", "gauge", "Jobs with a task to lease.", waiting),
                told("waiting_tasks", "gauge", "Waiting tasks by why they wait.", waits),
                told("oldest_ready_seconds", "gauge", "Age of the oldest job to lease.", ready_s),
                told("leases", "gauge", "Leases that are held.", leases),
                told("workers", "gauge", "Workers heard of within a term.", alive),
                *_owed_told(state.debts, served.exchanges.deliveries, owed_s),
                told("tokens", "gauge", "Tokens that open something.", len(state.tokens)),
                told("refusals_total", "counter", "Commands that were refused.", refusals),
                told("requests_total", "counter", "Requests by how they ended.", answers),
                *moves_told(coordinator),
                *log_told(served, head, durable),
                *_stalls_told(served.stalls),
                *_health_told(served.checker),
                *_disk_told(served.room),
                *runtimes_told(served.reconciling.tally),
                told("circuits", "gauge", "Circuits by state.", _circuits(state)),
                told("ready", "gauge", "Whether requests may come.", not service.trouble()),
            )
        )

    return Text(CONTENT_TYPE, await call.ask(look))


async def _owed_for(call: Call) -> float:
    """For how long the oldest of what is owed has been; zero for nothing."""
    served = call.service.served
    line, debts = call.service.owed, served.coordinator.state.debts
    oldest = await call.look(lambda state: next(line.after(debts, None), None))
    if oldest is None:
        return 0.0
    try:
        record = await served.read(oldest.position)
    except HistoryGone:
        return 0.0
    return max(0, served.coordinator.now() - record.at) / 1_000


def _owed_told(debts: Debts, deliveries: Deliveries, owed_s: float) -> Iterable[str]:
    """What commits owe, by sink; a staged file counts for the file system it lies on."""
    places = sorted(debts.places.items())
    owed = [(_at(where), place.owed) for where, place in places]
    parked = [(_at(where), place.parked) for where, place in places]
    delivered = [(_at(where), n) for where, n in sorted(deliveries.delivered.items())]
    failed = [(_at(where), n) for where, n in sorted(deliveries.failed.items())]
    yield told("effects_owed", "gauge", "What commits owe, parked or not.", owed)
    yield told("effects_parked", "gauge", "Of that, what waits for an operator.", parked)
    yield told("effects_oldest_seconds", "gauge", "Age of the oldest that is owed.", owed_s)
    yield told("effects_delivered_total", "counter", "Deliveries that went well.", delivered)
    yield told("delivery_failures_total", "counter", "Deliveries that failed.", failed)


def _stalls_told(stalls: Stalls) -> Iterable[str]:
    here = [({"kind": kind}, count) for kind, count in stalls.counts().items()]
    ended = [({"kind": kind}, count) for kind, count in sorted(stalls.recovered.items())]
    yield told("stalls", "gauge", "What hangs, by kind.", here)
    yield told("stalls_recovered_total", "counter", "Attempts that hung and were ended.", ended)


def _health_told(checker: Checker) -> Iterable[str]:
    """The last check of everything; nothing of it before there was one."""
    last = checker.last
    violated: list[Sample] = [] if last is None else [({}, float(len(last.violations)))]
    yield told("invariant_violations", "gauge", "What the last check found wrong.", violated)
    yield told("checks_total", "counter", "Checks of everything that were made.", checker.made)
    if last is not None:
        yield told("check_position", "gauge", "How far the last check went.", last.position)
        yield told("check_seconds", "gauge", "How long the last check took.", last.seconds)
        made = last.at_wall / 1_000
        yield told("check_timestamp_seconds", "gauge", "When the last check was made.", made)


def _disk_told(room: Room) -> Iterable[str]:
    short = [({"reason": str(reason)}, float(room.short == reason)) for reason in SHORTAGES]
    yield told("disk_free_bytes", "gauge", "Room on the disk of the log.", room.space.free)
    yield told("disk_low_bytes", "gauge", "Below this no more work is taken.", room.marks[0])
    yield told("disk_stop_bytes", "gauge", "Below this only what runs may end.", room.marks[1])
    yield told("disk_short", "gauge", "Whether the disk is short of something.", short)


def _at(where: tuple[str, str]) -> dict[str, str]:
    return {"kind": where[0], "sink": where[1]}


def _circuits(state: State) -> list[Sample]:
    """Functions and sinks that something is held against; nobody counts those that are well."""
    found = Counter((known.kind, known.state.value) for known in state.circuits.values())
    pairs = product((FUNCTION, SINK), CircuitState)
    return [({"kind": k, "state": s.value}, found[k, s.value]) for k, s in pairs]
