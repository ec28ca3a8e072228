"""`holdfast log`: verify, dump or measure a log, or take a snapshot of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from holdfast.cli.errors import REFUSED, Trouble
from holdfast.cli.measures import Stats, stats_of
from holdfast.cli.options import output_option
from holdfast.cli.output import (
    View,
    draw_fields,
    emit_json,
    emit_line,
    emit_one,
    note,
    typed,
)
from holdfast.cli.reading import data_option, folder_of
from holdfast.cli.spans import size, span
from holdfast.coordinator.inspect import (
    Folder,
    HistoryGone,
    LogDamaged,
    Told,
    look_into,
    undisturbed,
)
from holdfast.coordinator.verify import Finding, Flaw, verify_folder
from holdfast.coordinator.views import rfc3339
from holdfast.core.transactions import RENDERERS, to_json, transaction_of

F = TypeVar("F", bound=Callable[..., Any])


def in_folder(command: F) -> F:
    """`DIR`, or `--data DIR` as the other reading commands have it."""
    argument = click.argument(
        "folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path)
    )
    return argument(data_option(command))


@click.command()
@in_folder
@output_option
def verify(folder: Path | None, data: Path | None, form: str) -> int:
    """Check every frame, the chain, the snapshots, and what they add up to.

    Prints the last position, the chain head and the hash of the state. Takes no lock and changes
    nothing. Exits 1 where anything is damaged.
    """
    path = folder_of(folder or data)
    try:
        finding = verify_folder(path)
    except LogDamaged as damage:
        blame = _blame(Flaw(str(damage.file), damage.offset, damage.why))
        raise Trouble(f"{blame}\n{_restore(path)}", REFUSED) from None
    view = _finding_view(finding)
    emit_one(form, view, _finding_text(path, finding))
    if finding.is_good:
        return 0
    raise Trouble(_verdict(path, finding), REFUSED)


@click.command()
@in_folder
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["jsonl", "json"]),
    default="jsonl",
    show_default=True,
    help="An object a line, or one document.",
)
@click.option("--from", "first", type=click.IntRange(min=1), help="The first position.")
@click.option("--to", "last", type=click.IntRange(min=1), help="The last position.")
@click.option("--type", "types", multiple=True, help="Only events of this type; repeat for more.")
def dump(
    folder: Path | None,
    data: Path | None,
    form: str,
    first: int | None,
    last: int | None,
    types: tuple[str, ...],
) -> None:
    """Print the events of a log, one a line, in the order they became true.

    Each has position, time, epoch and type, then its own fields; instants among those are
    milliseconds of log time. Items and results are the user's: only their sizes are printed.
    """
    wanted = _event_types(types)
    if first and last and last < first:
        raise click.BadParameter(f"{last} comes before {first}", param_hint="--to")
    path = folder_of(folder or data)
    source = look_into(path, lenient=True)
    lines = (
        line
        for told in source.records(first or 0, last)
        for line in event_lines(told)
        if line["type"] in wanted
    )
    try:
        if form == "json":
            emit_json({"log_id": source.log_id, "events": list(lines)})
        else:
            for line in lines:
                emit_line(line)
    except HistoryGone:
        # It may have gone while we read, so where it begins now is looked up again.
        raise _gone(look_into(path, lenient=True)) from None
    damage = source.reader.damage
    if damage is not None and (last is None or last > source.last):
        raise Trouble(str(damage), REFUSED)
    if first and first > source.last:
        note(f"nothing is at {first} yet: the log ends at position {source.last}")


def _gone(source: Folder) -> Trouble:
    command = f"holdfast log dump {typed(source.path)} --from {source.oldest}"
    return Trouble(
        f"history before position {source.oldest} is no longer kept in {source.path}. "
        f"Ask from there on: `{command}`.",
        REFUSED,
    )


def _event_types(wanted: tuple[str, ...]) -> frozenset[str]:
    """The types that `--type` names, all where it names none."""
    known = {event.__name__ for event in RENDERERS}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise click.BadParameter(
            f"{unknown[0]} is no event; there are {', '.join(sorted(known))}", param_hint="--type"
        )
    return frozenset(wanted or known)


def event_lines(told: Told) -> list[View]:
    """The events of one record. What was asked, and by whom, stands on each."""
    rendered = to_json(transaction_of(told.record, told.position))
    envelope = {
        "position": int(told.position),
        "time": rfc3339(told.wall(told.record.at)),
        "epoch": told.epoch,
    }
    asked = {"command": told.record.command, "actor": told.record.actor}
    return [
        {**envelope, "type": event["type"], **asked, **_own(event)} for event in rendered["events"]
    ]


def _own(event: View) -> View:
    return {name: value for name, value in event.items() if name != "type"}


@click.command()
@in_folder
@output_option
def stats(folder: Path | None, data: Path | None, form: str) -> None:
    """Measure a log: frames, records, bytes, what was asked and what became true."""
    path = folder_of(folder or data)
    found = undisturbed(lambda: stats_of(look_into(path)))
    emit_one(form, found.view(), _stats_text(found))


@click.command()
@in_folder
@output_option
def snapshot(folder: Path | None, data: Path | None, form: str) -> None:
    """Make a snapshot now, so that the next start replays only what comes after it.

    Needs the folder for itself: a running program makes its own snapshots. The folder is opened
    as your program would open it, so what died with the last one is recorded: its attempts are
    lost, and a map it was still feeding, without a key, is closed as interrupted.
    """
    from holdfast.cli.snapshots import snapshot_now

    path = folder_of(folder or data)
    look_into(path)
    made = snapshot_now(path)
    view = {"position": made.position, "state_hash": made.state_hash}
    emit_one(form, view, draw_fields([("position", made.position), ("state", made.state_hash)]))
    note(f"a snapshot stands for everything up to position {made.position}")


def _finding_view(finding: Finding) -> View:
    return {
        "ok": finding.is_good,
        "log_id": finding.log_id,
        "oldest": finding.oldest,
        "last_position": finding.last,
        "frames": finding.frames,
        "epoch": finding.epoch,
        "chain_head": finding.head,
        "state_hash": finding.state_hash,
        "snapshots": finding.snapshots,
        "torn_bytes": finding.torn_bytes,
        "flaws": [{"file": f.file, "offset": f.offset, "why": f.why} for f in finding.flaws],
        "violations": list(finding.violations),
    }


def _finding_text(path: Path, finding: Finding) -> str:
    torn = f"{finding.torn_bytes} bytes of a frame that never became durable"
    fields: list[tuple[str, object]] = [
        ("folder", path),
        ("log", finding.log_id),
        ("oldest position", finding.oldest),
        ("last position", finding.last),
        ("chain head", finding.head),
        ("state hash", finding.state_hash),
        ("frames", finding.frames),
        ("epoch", finding.epoch),
        ("snapshots", finding.snapshots),
        ("torn tail", torn if finding.torn_bytes else None),
        ("verdict", "good" if finding.is_good else "DAMAGED"),
    ]
    return draw_fields(fields)


def _verdict(path: Path, finding: Finding) -> str:
    lines = [_blame(flaw) for flaw in finding.flaws]
    lines += [f"the state breaks an invariant: {text}" for text in finding.violations]
    if finding.last:
        lines.append(
            f"The history is good up to position {finding.last}: "
            f"`holdfast job list --data {typed(path)} --at {finding.last}` shows it; record "
            f"{finding.last + 1} is the first that cannot be followed."
        )
        if all(flaw.file.endswith(".snap") for flaw in finding.flaws) and finding.flaws:
            lines.append(
                "A snapshot can be made again: move the damaged one away, then "
                f"`holdfast log snapshot {typed(path)}`."
            )
        elif finding.flaws:
            lines.append(
                f"`holdfast log salvage {typed(path)} --dry-run` says what can be saved and what "
                "is lost; with --to NEWDIR it makes a new log of it."
            )
    else:
        lines.append(_restore(path))
    return "\n".join(lines)


def _restore(path: Path) -> str:
    return (
        "No record can be followed from the first on. A snapshot may stand for them: `holdfast log "
        f"salvage {typed(path)} --dry-run` says what can be saved. Else put a copy of {path} in "
        f"its place, then `holdfast log verify {typed(path)}`."
    )


def _blame(flaw: Flaw) -> str:
    where = flaw.file if flaw.offset is None else f"{flaw.file}, byte {flaw.offset}"
    return f"{where}: {flaw.why}"


def _ancestors(found: Stats) -> str | None:
    return ", ".join(f"{a.log_id} until {a.until}" for a in found.lineage) or None


def _stats_text(found: Stats) -> str:
    text = draw_fields(
        [
            ("log", found.log_id),
            ("comes from", _ancestors(found)),
            ("suspended", f"since its {found.suspended}" if found.suspended else None),
            ("positions", f"{found.oldest} to {found.last}"),
            ("frames", f"{found.frames:,}, {found.records_a_frame:.1f} records each"),
            ("records", f"{found.records:,}, {size(round(found.bytes_a_record))} each"),
            ("bytes", f"{size(found.record_bytes)} of records in {size(found.disk_bytes)} of disk"),
            ("segments", found.segments),
            ("snapshots", found.snapshots),
            ("epochs", found.epochs),
            ("from", None if found.first_wall is None else rfc3339(found.first_wall)),
            ("to", None if found.last_wall is None else rfc3339(found.last_wall)),
            ("span", span(found.span_ms)),
        ]
    )
    for title, tally in (("command", found.commands), ("event", found.events)):
        text += f"\nrecords by {title}\n" if title == "command" else "\nevents by type\n"
        text += "".join(f"{count:>10,}  {name}\n" for name, count in tally)
    return text
