"""`holdfast audit`: who did what and why, as a list or a file; and whether anybody changed it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import click

from holdfast.cli.audit_folders import again
from holdfast.cli.audit_tables import entries_table
from holdfast.cli.errors import NOT_FOUND, REFUSED, USAGE, Trouble
from holdfast.cli.moments import parse_moment
from holdfast.cli.options import output_option
from holdfast.cli.output import TABLES, View, draw_fields, emit_list, emit_one, note, typed, unread
from holdfast.cli.reading import DATA_VARIABLE, Look, folder_option, looks, reads
from holdfast.coordinator.auditfile import Checked, Torn, check_file, compare
from holdfast.coordinator.inspect import Folder, look_into
from holdfast.coordinator.verify import verify_folder
from holdfast.core.ids import parse_task_name
from holdfast.wire.wanted_entries import WantedEntries

HEX_LETTERS = 32


@click.command("list")
@reads
@click.option("--operator", "--actor", "operator", default="", metavar="NAME",
              help="Only what this one asked for, such as worker:w1.")
@click.option("--command", default="", metavar="NAME",
              help="Only this command, or this action, such as KillJob.")
@click.option("--job", default="", metavar="JOB", help="Only what touched this job.")
@click.option("--task", default="", metavar="JOB/INDEX", help="Only what touched this task.")
@click.option("--since", default="", metavar="POSITION|TIME", help="Nothing before this.")
@click.option("--until", default="", metavar="POSITION|TIME", help="Nothing after this.")
@click.option("--refused", is_flag=True, help="Only what was refused, as far as it is noted.")
@click.option("--limit", type=click.IntRange(min=0), default=100, show_default=True,
              help="How many, the newest last; 0 for all that is kept.")  # fmt: skip
def list_entries(look: Look, form: str, limit: int, **asked: Any) -> None:
    """List the audit trail: every move of a task, and whatever else was done, with who and why.

    What was refused is told with it, from notes beside the log that are safe to lose.
    """
    wanted = _wanted(**asked)
    with look.source() as source:
        views = source.audit.entries(wanted, limit)
        options = source.options
    if form in TABLES and not views:
        note(f"nothing of the kind is kept; `holdfast audit list{options}` has all")
        return
    emit_list(form, "entries", views, entries_table(views, wide=form == "wide"))


def _wanted(
    operator: str, command: str, job: str, task: str, since: str, until: str, refused: bool
) -> WantedEntries:
    index = -1
    if task:
        named = parse_task_name(task)
        if named is None:
            raise click.BadParameter(f"{task} is not of the form JOB/INDEX", param_hint="--task")
        job, index = named
    begin, end = _moment(since, "--since"), _moment(until, "--until")
    return WantedEntries(
        operator=operator, command=command, job_id=job, index=index, refused=refused,
        since=begin.wall or 0, first=begin.position or 0,
        until=end.wall or 0, last=end.position or 0,
    )  # fmt: skip


def _moment(text: str, option: str) -> Any:
    try:
        return parse_moment(text or "0", datetime.now().astimezone())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


@click.command("head")
@reads
def show_head(look: Look, form: str) -> None:
    """Print POSITION:HEX, the head of the log's chain.

    Keep it where whoever could change the log cannot: `holdfast audit verify --head` compares.
    """
    with look.source() as source:
        view = source.audit.head()
    if not view["head"]:
        raise Trouble("nothing was written there yet. `holdfast demo --keep` does.", NOT_FOUND)
    emit_one(form, view, f"{view['position']}:{view['head']}\n")


@click.command("export")
@click.argument("file", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@looks
@click.option("--from", "first", type=click.IntRange(min=1), help="The first position.")
@click.option("--to", "last", type=click.IntRange(min=1), help="The last position.")
def export(look: Look, file: Path | None, first: int | None, last: int | None) -> None:
    """Write the audit trail to FILE, or to stdout: JSON lines, each chained to the one before it.

    `holdfast audit verify FILE` finds a line that was changed, left out, repeated or moved. A FILE
    that is there is replaced when the new one is whole, and not before.
    """
    link = b""
    with look.source() as source, _written_whole(file) as target:
        for line in source.audit.export(first or 0, last or 0):
            target.write(line)
            link = line
    note(f"the last link is {link[-HEX_LETTERS - 3:-3].decode()}; `verify --link` compares")


@contextmanager
def _written_whole(file: Path | None) -> Iterator[BinaryIO]:
    """A file that takes its place at the end; stdout where none is named."""
    if file is None or str(file) == "-":
        try:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise unread() from None
        return
    begun = file.with_name(f".{file.name}.part")
    try:
        with begun.open("wb") as target:
            yield target
        os.replace(begun, file)
    finally:
        begun.unlink(missing_ok=True)


@click.command("verify")
@click.argument("file", metavar="[FILE]", required=False,
                type=click.Path(path_type=Path, dir_okay=False))  # fmt: skip
@folder_option("where no FILE is named")
@output_option
@click.option("--head", metavar="POSITION:HEX", help="What `audit head` printed once.")
@click.option("--link", metavar="HEX", help="The last link, as `audit export` told it.")
def verify(
    file: Path | None, data: Path | None, form: str, head: str | None, link: str | None
) -> int:
    """Check that nobody changed the audit trail: a FILE, the log in --data DIR, or one against
    the other.

    Ends with 1 and names the first line, or the file and byte of the log, that is not as it was.
    """
    claim = _head(head)
    view: View = {"ok": True}
    if file is None and data is None:
        told = os.environ.get(DATA_VARIABLE)
        data = Path(told) if told else None
    if file is None and data is None:
        raise click.UsageError("name a FILE, a folder with --data, or both")
    try:
        checked = None if file is None else _check(file, link)
        folder = None if data is None else _log(data, claim)
        if checked is not None:
            view.update(_file_view(checked))
            _claimed(checked, claim if folder is None else None)
        if folder is not None:
            view.update({"log_id": folder.log_id, "last_position": int(folder.last)})
        if checked is not None and folder is not None and file is not None:
            view["compared"] = _compared(file, checked, folder)
    except Torn as torn:
        told = f"{file}: {torn}. `holdfast audit export` makes a new one."
        raise Trouble(told, REFUSED) from None
    emit_one(form, view, draw_fields([*view.items(), ("verdict", "good")]))
    return 0


def _head(text: str | None) -> tuple[int, str] | None:
    if text is None:
        return None
    position, colon, told = text.strip().partition(":")
    if not colon or not position.isdigit() or len(told) != HEX_LETTERS:
        raise Trouble(
            f"--head {text} is not of the form POSITION:HEX; `holdfast audit head` prints one.",
            USAGE,
        )
    return int(position), told.lower()


def _check(file: Path, link: str | None) -> Checked:
    with file.open("rb") as lines:
        checked = check_file(lines)
    if link is not None and checked.link != link.strip().lower():
        raise Trouble(
            f"{file} ends in link {checked.link}, not {link}: it is whole, and not the file that "
            "was exported then.",
            REFUSED,
        )
    return checked


def _file_view(checked: Checked) -> View:
    span = checked.span
    return {
        "file_log_id": span.log_id,
        "first": span.first,
        "last": span.last,
        "entries": checked.entries,
        "records": checked.records,
        "head": f"{span.last}:{span.head}" if span.head else None,
        "link": checked.link,
    }


def _claimed(checked: Checked, claim: tuple[int, str] | None) -> None:
    """A file says how the chain stood before and after it, and nothing of what lies between."""
    if claim is None:
        return
    span, (position, told) = checked.span, claim
    known = {span.last: span.head, span.first - 1: span.before}
    if position > span.last:
        raise Trouble(f"the file ends at position {span.last}, before {position}.", REFUSED)
    if not known.get(position):
        raise Trouble(
            f"a file cannot tell the head at {position}: compare with the log, --data DIR.", USAGE
        )
    if known[position] != told:
        raise Trouble(
            f"the head at position {position} is {known[position]} in the file, not {told}.",
            REFUSED,
        )


def _log(path: Path, claim: tuple[int, str] | None) -> Folder:
    """The log, every byte of it checked, and as it was when its head was kept."""
    found = verify_folder(path)
    verify = f"`holdfast log verify {typed(path)}` says more."
    if found.flaws:
        flaw = found.flaws[0]
        where = flaw.file if flaw.offset is None else f"{flaw.file}, byte {flaw.offset}"
        after = f"the log is good up to position {found.last}"
        raise Trouble(f"{where}: {flaw.why}; {after}. {verify}", REFUSED)
    if found.violations:
        raise Trouble(f"the log breaks an invariant: {found.violations[0]}. {verify}", REFUSED)
    folder = look_into(path)
    if claim is not None:
        _compare_head(folder, *claim)
    return folder


def _compare_head(folder: Folder, position: int, told: str) -> None:
    if position > folder.last:
        raise Trouble(
            f"the log in {folder.path} ends at position {folder.last}, and its head was seen at "
            f"{position}: its tail was cut, and {position - folder.last} records are missing.",
            REFUSED,
        )
    if position < folder.oldest - 1:
        raise Trouble(
            f"history before position {folder.oldest} is no longer kept in {folder.path}: the head "
            f"at {position} cannot be compared. Name a later one.",
            USAGE,
        )
    head = folder.reader.chain_after(position)
    if head is None or head.hex() != told:
        shown = "no frame ends there" if head is None else f"it is {head.hex()} now"
        raise Trouble(
            f"the head at position {position} was {told}, and {shown}: what leads up to it was "
            "changed.",
            REFUSED,
        )


def _compared(file: Path, checked: Checked, folder: Folder) -> str:
    """Line by line with what the log tells."""
    span = checked.span
    if span.log_id != folder.log_id:
        raise Trouble(f"{file} is of log {span.log_id}, {folder.path} holds {folder.log_id}.")
    if span.first < folder.oldest:
        raise Trouble(
            f"{folder.path} keeps its history from position {folder.oldest} on, and {file} begins "
            f"at {span.first}: they cannot be compared. The archive may have it.",
            USAGE,
        )
    if span.last > folder.last:
        raise Trouble(
            f"{file} goes up to position {span.last}, and the log in {folder.path} ends at "
            f"{folder.last}: its tail was cut.",
            REFUSED,
        )
    with file.open("rb") as lines:
        compare(lines, _written(folder, checked))
    return "every line is what the log tells"


def _written(folder: Folder, checked: Checked) -> Iterator[bytes]:
    return again(folder, checked.span)
