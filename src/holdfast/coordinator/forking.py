"""A new folder that goes on from another one: built beside its name, and given it when it is whole.

The new log has an id of its own. It holds the state of the former one at a position, the records
that its tasks point into, and the files that its jobs refer to. Its first record says where it
comes from. The former folder is read as anyone may read it, and is not changed.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_bytes
from typing import Final

import psutil
from msgspec import Struct, structs

from holdfast.coordinator import bundles, output, results
from holdfast.coordinator.inspect import Folder, Moment, Reading, open_folder
from holdfast.coordinator.keeping import kept_records
from holdfast.core import commands as c
from holdfast.core.apply import apply
from holdfast.core.decide import decide
from holdfast.core.decision import Refused
from holdfast.core.errors import BrokenInvariant, OperatingError
from holdfast.core.freeze import fingerprint, freeze
from holdfast.core.ids import Instant, LeaseId, Position
from holdfast.core.invariants import check
from holdfast.core.lineage import FORK, LEASE_LEAP
from holdfast.core.record import Record, encode_record
from holdfast.core.state import State
from holdfast.core.touching import Named
from holdfast.wal import (
    Disk,
    Edge,
    KeptRecord,
    RealDisk,
    begin_log,
    chain_from,
    write_kept,
    write_snapshot,
    write_whole,
)
from holdfast.wire.contents import Contents

HALF: Final = ".half-"
REPORT: Final = "salvage-report.json"


class Taken(OperatingError):
    """Something has the name that the new folder was to have."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} exists already. Name a folder that does not, with --to.")


class Forked(Struct, frozen=True):
    """A new log: what it is called, where it comes from, and what it was given along."""

    log_id: str
    origin: str
    at_position: int
    position: int
    state_hash: str
    folder: str
    jobs: int
    records_kept: int
    files: int
    ended: int


class Plan(Struct, frozen=True):
    """What a new log is made of: the state it sets out from, the records that its tasks point into,
    and its first record. `report` is put beside the log where there is something to tell."""

    source: Path
    state: State
    command: c.ForkLog
    record: Record
    kept: list[KeptRecord]
    wall: Instant
    report: bytes = b""


def fork_folder(
    source: Path, target: Path, moment: Moment, *, wall: Instant, actor: str, reason: str = ""
) -> Forked:
    """A new folder with the state of another one at a moment, by default now."""
    check_target(target)
    reading = open_folder(source, moment)
    return build(fork_plan(reading, wall=wall, actor=actor, reason=reason), target)


def fork_plan(reading: Reading, *, wall: Instant, actor: str, reason: str) -> Plan:
    state, folder = reading.state, reading.folder
    seen = Named(lease=state.next_lease, job=state.next_job, epoch=state.epoch)
    at = state.time
    for told in folder.records(state.position + 1) if folder.last > state.position else ():
        at = max(at, told.record.at)
        seen.epoch = max(seen.epoch, told.epoch)
        for event in told.record.events:
            seen.take(event)
    head_position, head = head_at(folder, state.position)
    command = c.ForkLog(
        log_id=token_bytes(16).hex(),
        head=head,
        head_position=head_position,
        kind=FORK,
        epoch=max(seen.epoch, state.epoch, folder.reader.epoch) + 1,
        next_lease=LeaseId(seen.lease + LEASE_LEAP),
        next_job=seen.job + 1,
        reason=reason,
    )
    record = first_record(state, command, Instant(max(at, wall)), actor)
    kept = list(kept_records(folder.reader, state, state.position + 1))
    return Plan(folder.path, state, command, record, kept, wall)


def head_at(folder: Folder, position: Position) -> tuple[Position, bytes]:
    """The chain head after the last whole frame up to a position, and where that frame ends."""
    head = folder.reader.chain_after(position)
    if head is not None:
        return position, head
    frame, _ = folder.reader.record(position)
    before = Position(frame.first - 1)
    head = folder.reader.chain_after(before)
    if head is None:
        raise BrokenInvariant(f"no frame ends at position {before}")
    return before, head


def check_target(target: Path) -> None:
    """Refuse a name that is taken; an empty folder is as good as none."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Taken(target)


def build(plan: Plan, target: Path) -> Forked:
    """Make the folder under another name, look whether it tells what it should, and name it."""
    check_target(target)
    target = target.absolute()
    _clear_leftovers(target)
    half = target.with_name(f"{target.name}{HALF}{os.getpid()}")
    half.mkdir(mode=0o700, parents=True)
    try:
        forked = _fill(plan, half)
    except BaseException:
        shutil.rmtree(half, ignore_errors=True)
        raise
    disk = RealDisk()
    disk.fsync_dir(half)
    check_target(target)
    disk.rename(half, target)
    disk.fsync_dir(target.parent)
    return structs.replace(forked, folder=str(target))


def _fill(plan: Plan, folder: Path) -> Forked:
    disk, state, command = RealDisk(), plan.state, plan.command
    origin, position = state.log_id, state.position
    log_id = bytes.fromhex(command.log_id)
    frozen, state_hash = freeze(state), fingerprint(state)
    chain = chain_from(log_id, command.head)
    write_kept(disk, folder, position, plan.kept)
    write_snapshot(
        disk, folder, position, chain, command.log_id, [frozen], state_hash.encode()
    )
    files = sum(1 for _ in _bring_files(disk, plan.source, folder, state))
    if plan.report:
        write_whole(disk, folder / REPORT, plan.report)
    record = plan.record
    edge = Edge(position, command.epoch - 1, chain)
    begin_log(
        disk, folder, log_id, edge, encode_record(record), at=record.at, wall=plan.wall
    )
    apply(state, record, Position(position + 1))
    violations = check(state)
    made = open_folder(folder).state
    if violations or fingerprint(made) != fingerprint(state):
        told = violations[0] if violations else "it does not tell what it was made of"
        raise BrokenInvariant(f"the new log cannot be: {told}")
    ended = sum(len(getattr(event, "ends", ())) for event in record.events)
    return Forked(
        command.log_id, origin, position, state.position, fingerprint(state), str(folder),
        len(state.jobs), len(plan.kept), files, ended,
    )  # fmt: skip


def first_record(state: State, command: c.ForkLog, at: Instant, actor: str) -> Record:
    """What the new log begins with, judged as any command is."""
    decision = decide(state, command, at)
    if isinstance(decision, Refused):
        raise OperatingError(f"this log cannot be forked: {decision.message}.")
    return Record(at, type(command).__name__, actor, "", command.reason, decision.events)


def _bring_files(disk: Disk, source: Path, folder: Path, state: State) -> Iterator[Path]:
    """What the jobs refer to beside the log. Files named by their digests never change, so both
    folders may have the same one; what tasks have printed is copied, since it may go on growing."""
    stored = {each.digest.hex() for each in state.stored_results()}
    specs = [job.spec for job in state.jobs.values()]
    specs += [schedule.definition.spec for schedule in state.schedules.values()]
    code = {spec.bundle for spec in specs if spec.bundle}
    for digests, here, there in (
        (stored, results.contents_of(source), results.contents_of(folder)),
        (code, Contents(source / bundles.FOLDER), Contents(folder / bundles.FOLDER)),
    ):
        for digest in sorted(digests):
            if here.path_of(digest).exists():
                yield _share(disk, here.path_of(digest), there.path_of(digest))
    for job_id in state.jobs:
        printed = source / output.FOLDER / job_id
        if printed.is_dir():
            yield shutil.copytree(printed, folder / output.FOLDER / job_id)


def _share(disk: Disk, source: Path, target: Path) -> Path:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        # Another disk, or one that knows no links.
        shutil.copyfile(source, target)
        fd = disk.open(target, write=True)
        try:
            disk.fsync(fd)
        finally:
            disk.close(fd)
    disk.fsync_dir(target.parent)
    disk.fsync_dir(target.parent.parent)
    return target


def _clear_leftovers(target: Path) -> None:
    """Remove what makers of this folder left half made when they died."""
    for path in target.parent.glob(f"{target.name}{HALF}*"):
        with suppress(ValueError):
            if not psutil.pid_exists(int(path.name.rpartition("-")[2])):
                shutil.rmtree(path, ignore_errors=True)
