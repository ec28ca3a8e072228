"""What can be saved of a damaged log, and what cannot: looked at first, then made a new log of.

The history is followed as far as its chain holds, from its beginning or from a snapshot, whichever
reaches farthest. Behind that lie whole frames, perhaps, whose order nobody can vouch for: of those
only the names are taken. A task that any of them names, or that was held where the history ends,
waits for a person; nobody runs it again by himself.
"""

from collections.abc import Iterable
from pathlib import Path
from secrets import token_bytes
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.coordinator.decoding import decode_at
from holdfast.coordinator.forking import Plan, first_record
from holdfast.coordinator.inspect import LogDamaged, look_into, thawed
from holdfast.coordinator.keeping import kept_records
from holdfast.coordinator.owning import owner_of
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.apply import apply
from holdfast.core.errors import BrokenInvariant, OperatingError
from holdfast.core.ids import Index, Instant, JobId, LeaseId, Position, task_name
from holdfast.core.lineage import LEASE_LEAP, SALVAGE, Hole
from holdfast.core.record import Record, decode_record
from holdfast.core.state import State
from holdfast.core.touching import Named
from holdfast.wal import Edge, LogInUse, Reach, RealDisk, Snapshot, Wreckage, genesis

SAMPLE: Final = 1_000
"""So many of each are named in a report; their number is told in full."""


class NothingLost(OperatingError):
    """The log is whole: there is nothing to salvage."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"the log in {path} is whole: there is nothing to salvage. To go back to a moment of "
            f"it: `holdfast log fork {path} --at POSITION --to NEWDIR`."
        )


class Loss(Struct, frozen=True):
    """What is lost, what is in doubt, and what is saved.

    `good_until` is the last position that could be followed; `lost_from` and `lost_to` are the
    positions behind it that the new log does not have, zero where nobody knows. `behind` counts
    whole frames, and the records in them, that lie behind the hole. `quarantined` are tasks that
    wait for a person: named behind the hole, or held where the history ends.
    """

    folder: str
    log_id: str
    good_until: int
    followed_from: int
    chain_head: str
    hole: dict[str, Any]
    lost_from: int
    lost_to: int
    lost_bytes: int
    frames_behind: int
    records_behind: int
    records_unreadable: int
    quarantined_count: int
    quarantined: tuple[str, ...]
    jobs_lost: tuple[dict[str, Any], ...]
    items_lost: dict[str, int]
    schedules_fired: dict[str, int]
    results_lost_count: int
    results_lost: tuple[str, ...]
    jobs_kept: int


class Behind(Struct):
    """What the whole frames behind the hole name."""

    named: Named
    first: int = 0
    frames: int = 0
    records: int = 0
    unreadable: int = 0
    at: int = 0


def plan_salvage(
    source: Path, *, wall: Instant, actor: str, reason: str = ""
) -> tuple[Plan, Loss]:
    """A new log of what can be followed, and what it leaves out. Nothing is written.

    `NothingLost` where the log is whole; `LogInUse` while a program has it open.
    """
    owner = owner_of(source)
    if owner:
        raise LogInUse(source, owner)
    damage = _damage_of(source)
    wreck = Wreckage(RealDisk(), source)
    state, edge, reach, flaw = _followed(wreck)
    if damage is None and flaw is None:
        raise NothingLost(source)
    behind = _behind(wreck, state)
    hole = _hole(wreck, state, reach, behind, damage, flaw)
    command = _command(wreck, state, reach, behind, hole, reason)
    at = Instant(max(state.time, behind.at, wall))
    record = first_record(state, command, at, actor)
    lost: list[int] = []
    kept = list(kept_records(wreck, state, state.position + 1, lost))
    loss = _loss(wreck, state, edge, command, behind, record, frozenset(lost))
    report = msgspec.json.format(msgspec.json.encode(loss), indent=2) + b"\n"
    return Plan(source, state, command, record, kept, wall, report), loss


def _damage_of(source: Path) -> LogDamaged | None:
    """What keeps the log from being opened, as far as its bytes tell."""
    try:
        return look_into(source).reader.damage
    except LogDamaged as damage:
        return damage


def _followed(wreck: Wreckage) -> tuple[State, Edge, Reach, str | None]:
    """The state as far as the history can be followed, from where it set out, and why it ends
    there if not for the chain."""
    starts: list[tuple[Edge, Snapshot | None]] = [(genesis(wreck.log_id), None)]
    starts += [(Edge(s.position, 0, s.chain_head), s) for s in wreck.snapshots]
    reaches = [(wreck.follow(edge), edge, snapshot) for edge, snapshot in starts]
    reaches.sort(key=lambda found: (found[0].edge.position, found[1].position), reverse=True)
    for reach, edge, snapshot in reaches:
        if not reach.edge.position:
            continue
        try:
            state = State() if snapshot is None else thawed(snapshot)
        except BrokenInvariant:
            continue
        flaw = _replay(wreck, state, edge, reach.edge.position)
        if flaw is not None:
            # The record that cannot be may have been half told: the good part is told again.
            until = state.position
            state = State() if snapshot is None else thawed(snapshot)
            _replay(wreck, state, edge, until)
            reach = wreck.follow(edge, until)
        return state, edge, reach, flaw
    raise LogDamaged(wreck.folder / "wal", 0, "no frame and no snapshot of it can be read")


def _replay(wreck: Wreckage, state: State, edge: Edge, until: int) -> str | None:
    """Fold what follows; why it had to stop before `until`, if it had to."""
    for frame in wreck.linked(edge, _frame_end(wreck, edge, until)):
        for position, data in enumerate(frame.records, start=frame.first):
            if not state.position < position <= until:
                continue
            try:
                apply(state, decode_at(wreck, data, position), Position(position))
            except BrokenInvariant as error:
                return f"record {position} cannot be: {error}"
    return None


def _frame_end(wreck: Wreckage, edge: Edge, until: int) -> int:
    """The end of the frame that holds `until`: frames are read whole."""
    if until <= edge.position:
        return until
    return wreck.record(until)[0].last


def _behind(wreck: Wreckage, state: State) -> Behind:
    found = Behind(Named(lease=state.next_lease, job=state.next_job, epoch=state.epoch))
    for frame in wreck.behind(state.position):
        found.frames += 1
        found.at = max(found.at, frame.at)
        found.named.epoch = max(found.named.epoch, frame.epoch)
        for position, data in enumerate(frame.records, start=frame.first):
            if position <= state.position:
                continue
            found.first = found.first or position
            found.records += 1
            try:
                events = decode_record(data).events
            except BrokenInvariant:
                found.unreadable += 1
                continue
            for event in events:
                found.named.take(event)
    return found


def _hole(
    wreck: Wreckage,
    state: State,
    reach: Reach,
    behind: Behind,
    damage: LogDamaged | None,
    flaw: str | None,
) -> Hole:
    """Where the history ends, and which positions behind it cannot be read."""
    position = state.position
    path = reach.path or (wreck.paths[-1] if wreck.paths else wreck.folder)
    offset, why = reach.offset, flaw or (damage.why if damage is not None else "")
    if damage is not None and flaw is None:
        path, offset = damage.file, damage.offset
    if not behind.records and wreck.acked <= position and wreck.ends_at(reach):
        return Hole(str(path), offset, 0, 0, why)
    last = behind.first - 1 if behind.first else max(0, wreck.acked)
    return Hole(str(path), offset, position + 1, last if last > position else 0, why)


def _command(
    wreck: Wreckage, state: State, reach: Reach, behind: Behind, hole: Hole, reason: str
) -> c.ForkLog:
    named = behind.named
    touched = {job_id: set(indices) for job_id, indices in named.tasks.items()}
    for job_id in named.forgotten:
        job = state.jobs.get(job_id)
        if job is not None:
            touched[job_id] = set(map(Index, range(job.count)))
    # A record submits a job at most, save for a backfill: none of their numbers comes again.
    lost = max(0, wreck.last - state.position)
    head = reach.edge
    return c.ForkLog(
        log_id=token_bytes(16).hex(),
        head=head.chain,
        head_position=Position(head.position),
        kind=SALVAGE,
        epoch=max(named.epoch, head.epoch, state.epoch) + 1,
        next_lease=LeaseId(named.lease + LEASE_LEAP),
        next_job=named.job + 1 + lost,
        hole=hole,
        reason=reason,
        touched=tuple(
            (job_id, tuple(sorted(touched[job_id])))
            for job_id in sorted(touched)
            if job_id in state.jobs
        ),
    )


def _loss(
    wreck: Wreckage,
    state: State,
    edge: Edge,
    command: c.ForkLog,
    behind: Behind,
    record: Record,
    lost: frozenset[int],
) -> Loss:
    doubtful = list(_set_aside(record))
    results = list(_pointing_at(state, lost)) if lost else []
    named = behind.named
    return Loss(
        folder=str(wreck.folder),
        log_id=wreck.log_id.hex(),
        good_until=state.position,
        followed_from=edge.position,
        chain_head=command.head.hex(),
        hole=msgspec.structs.asdict(command.hole),
        lost_from=command.hole.first,
        lost_to=max(wreck.last, command.hole.last) if command.hole.first else 0,
        lost_bytes=wreck.lost_bytes,
        frames_behind=behind.frames,
        records_behind=behind.records,
        records_unreadable=behind.unreadable,
        quarantined_count=len(doubtful),
        quarantined=tuple(doubtful[:SAMPLE]),
        jobs_lost=tuple(map(_job_view, list(named.submitted.values())[:SAMPLE])),
        items_lost={job: count for job, count in named.fed.items() if job in state.jobs},
        schedules_fired=dict(named.fired),
        results_lost_count=len(results),
        results_lost=tuple(results[:SAMPLE]),
        jobs_kept=len(state.jobs),
    )


def _set_aside(record: Record) -> Iterable[str]:
    for event in record.events:
        if isinstance(event, e.TasksSetAside):
            for span in event.spans:
                for index in range(span.first, span.last + 1):
                    yield task_name(event.job_id, index)
            yield from (task_name(event.job_id, end.index) for end in event.ends)


def _pointing_at(state: State, lost: frozenset[int]) -> Iterable[str]:
    """The tasks whose last end, and with it their result or error, cannot be read."""
    for job in state.jobs.values():
        for index, end in enumerate(job.ends or ()):
            if end in lost:
                yield task_name(job.job_id, index)
        for task in (job.tasks or {}).values():
            if task.committed in lost or task.previous in lost:
                yield task_name(job.job_id, task.index)


def _job_view(event: e.JobSubmitted) -> dict[str, Any]:
    return {
        "id": JobId(event.job_id),
        "name": event.spec.name,
        "key": event.key or None,
        "tasks": event.count or len(event.items),
    }
