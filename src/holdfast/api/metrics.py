"""Numbers for those who draw curves, in the text format that Prometheus reads."""

from collections import Counter
from collections.abc import Iterable
from itertools import product
from typing import Final

from holdfast.api.call import Call, Text
from holdfast.api.census import counted
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

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[dict[str, str], float]


async def metrics(call: Call) -> Text:
    """Numbers about this server, for Prometheus."""
    service = call.service
    served = service.served
    census = await counted(call)
    waits = [({"reason": code}, n) for code, n in sorted(census.tasks.items())]
    owed_s = await _owed_for(call)

    def look(coordinator: Coordinator) -> str:
        state = coordinator.state
        leases = sum(len(holder.leases) for holder in state.holders.values())
        alive = sum(map(served.exchanges.registry.is_alive, served.exchanges.workers.values()))
        waiting = sum(map(len, state.ready.queues.values()))
        refusals = [({"code": code}, n) for code, n in coordinator.refusals.items()]
        answers = [({"status": str(status)}, n) for status, n in service.answered.items()]
        return "".join(
            (
                _told(
                    "build_info", "gauge", "Which Holdfast this is.", [({"version": VERSION}, 1)]
                ),
                _told("log_position", "gauge", "The last record in memory.", state.position),
                _told(
                    "log_durable_position", "gauge", "The last record on disk.", served.log.durable
                ),
                _told(
                    "log_written_bytes_total", "counter", "Bytes of records.", coordinator.written
                ),
                _told("jobs", "gauge", "Jobs in memory.", len(state.jobs)),
                _told("jobs_open", "gauge", "Jobs that are still fed.", len(state.open_jobs)),
                _told("jobs_waiting", "gauge", "Jobs with a task to lease.", waiting),
                _told("waiting_tasks", "gauge", "Waiting tasks by why they wait.", waits),
                _told("leases", "gauge", "Leases that are held.", leases),
                _told("workers", "gauge", "Workers heard of within a term.", alive),
                *_owed_told(state.debts, served.exchanges.deliveries, owed_s),
                _told("tokens", "gauge", "Tokens that open something.", len(state.tokens)),
                _told("refusals_total", "counter", "Commands that were refused.", refusals),
                _told("requests_total", "counter", "Requests by how they ended.", answers),
                *_stalls_told(served.stalls),
                *_health_told(served.checker),
                *_disk_told(served.room),
                _told("circuits", "gauge", "Circuits by state.", _circuits(state)),
                _told("ready", "gauge", "Whether requests may come.", not service.trouble()),
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
    yield _told("effects_owed", "gauge", "What commits owe, parked or not.", owed)
    yield _told("effects_parked", "gauge", "Of that, what waits for an operator.", parked)
    yield _told("effects_oldest_seconds", "gauge", "Age of the oldest that is owed.", owed_s)
    yield _told("effects_delivered_total", "counter", "Deliveries that went well.", delivered)
    yield _told("delivery_failures_total", "counter", "Deliveries that failed.", failed)


def _stalls_told(stalls: Stalls) -> Iterable[str]:
    here = [({"kind": kind}, count) for kind, count in stalls.counts().items()]
    ended = [({"kind": kind}, count) for kind, count in sorted(stalls.recovered.items())]
    yield _told("stalls", "gauge", "What hangs, by kind.", here)
    yield _told("stalls_recovered_total", "counter", "Attempts that hung and were ended.", ended)


def _health_told(checker: Checker) -> Iterable[str]:
    """The last check of everything; nothing of it before there was one."""
    last = checker.last
    violated: list[Sample] = [] if last is None else [({}, float(len(last.violations)))]
    yield _told("invariant_violations", "gauge", "What the last check found wrong.", violated)
    yield _told("checks_total", "counter", "Checks of everything that were made.", checker.made)
    if last is not None:
        yield _told("check_position", "gauge", "How far the last check went.", last.position)
        yield _told("check_seconds", "gauge", "How long the last check took.", last.seconds)
        made = last.at_wall / 1_000
        yield _told("check_timestamp_seconds", "gauge", "When the last check was made.", made)


def _disk_told(room: Room) -> Iterable[str]:
    short = [({"reason": str(reason)}, float(room.short == reason)) for reason in SHORTAGES]
    yield _told("disk_free_bytes", "gauge", "Room on the disk of the log.", room.space.free)
    yield _told("disk_low_bytes", "gauge", "Below this no more work is taken.", room.marks[0])
    yield _told("disk_stop_bytes", "gauge", "Below this only what runs may end.", room.marks[1])
    yield _told("disk_short", "gauge", "Whether the disk is short of something.", short)


def _at(where: tuple[str, str]) -> dict[str, str]:
    return {"kind": where[0], "sink": where[1]}


def _circuits(state: State) -> list[Sample]:
    """Functions and sinks that something is held against; nobody counts those that are well."""
    found = Counter((known.kind, known.state.value) for known in state.circuits.values())
    pairs = product((FUNCTION, SINK), CircuitState)
    return [({"kind": k, "state": s.value}, found[k, s.value]) for k, s in pairs]


def _told(name: str, kind: str, about: str, value: float | Iterable[Sample]) -> str:
    samples = [({}, value)] if isinstance(value, int | float) else value
    lines = [f"# HELP holdfast_{name} {about}\n# TYPE holdfast_{name} {kind}\n"]
    for labels, number in samples:
        shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        where = f"{{{shown}}}" if shown else ""
        lines.append(f"holdfast_{name}{where} {float(number):.15g}\n")
    return "".join(lines)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
