"""`holdfast log compact`, `archive` and `upgrade`: less to keep, and less to read at a start."""

from pathlib import Path
from typing import Any

import click
from msgspec import structs

from holdfast.cli.errors import REFUSED, USAGE, Trouble
from holdfast.cli.logs import in_folder
from holdfast.cli.options import output_option, reason_option, server_options
from holdfast.cli.output import View, draw_fields, emit_one, note, typed
from holdfast.cli.reading import folder_of
from holdfast.cli.spans import size
from holdfast.wire.amounts import size_bytes


def _size(context: click.Context, option: click.Parameter, value: str | None) -> int:
    try:
        return size_bytes(value or "0", "keep")
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from None


keep_option = click.option(
    "--keep",
    callback=_size,
    metavar="SIZE",
    help="Keep at least so much history to look back on, such as 64Mi. [default: none]",
)


@click.command()
@in_folder
@keep_option
@reason_option
@server_options
@output_option
def compact(
    folder: Path | None,
    data: Path | None,
    keep: int,
    reason: str,
    server: str | None,
    token_file: Path | None,
    form: str,
) -> None:
    """Make a snapshot now and drop the history that it stands for.

    Results of kept jobs stay. A position before the oldest kept one can be looked at no more:
    `holdfast log archive` puts that history aside instead. Asks the server, which keeps as much as
    its settings say; with DIR, opens the folder itself.
    """
    if folder is None and data is None:
        if keep:
            raise Trouble("a server keeps what server.history says; --keep goes with DIR.", USAGE)
        from holdfast.cli.asking import asking
        from holdfast.wire.bodies import Reason

        with asking(server, token_file) as asker:
            view = asker.post("log", "compact", body=Reason(reason=reason))
    else:
        view = _compacted(folder_of(folder or data), keep, None)
    emit_one(form, view, draw_fields(_fields(view)))


@click.command()
@in_folder
@click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path),
    required=True,
    metavar="ARCHIVE",
    help="Where the segments go; each log needs an archive of its own.",
)
@keep_option
@output_option
def archive(
    folder: Path | None, data: Path | None, target: Path, keep: int, form: str
) -> None:
    """Put the history that snapshots stand for into an archive, segment by segment.

    To look at it again, copy the folder and put the segments back into its `wal`. A running server
    does the same by its setting server.archive.
    """
    view = _compacted(folder_of(folder or data), keep, target)
    emit_one(form, view, draw_fields(_fields(view)))
    note(f"{view['segments_gone']} segments are in {typed(target)}")


@click.command()
@in_folder
@click.option("--dry-run", is_flag=True, help="Only say what there is.")
@output_option
def upgrade(folder: Path | None, data: Path | None, dry_run: bool, form: str) -> None:
    """Say which releases wrote a log, and spare the next start what they wrote otherwise.

    Records of former releases are read for ever, and never changed. Where some are in shapes that
    are written no more, a snapshot of this release is made, so that a start needs none of them.
    """
    from holdfast.coordinator.upgrading import ages_of

    path = folder_of(folder or data)
    ages = ages_of(path)
    view = {**structs.asdict(ages), "needs_snapshot": ages.needs_snapshot, "dry_run": dry_run}
    told = ", ".join(f"{count:,} by {name}" for name, count in ages.versions.items())
    former = ", ".join(f"{count} {name}" for name, count in ages.former.items())
    fields: list[tuple[str, object]] = [
        ("log", ages.log_id),
        ("records", f"{ages.records:,}: {told}"),
        ("of former shapes", f"{ages.records_former:,}: {former}" if former else "none"),
        ("snapshots", ages.snapshots),
    ]
    emit_one(form, view, draw_fields(fields))
    if not ages.needs_snapshot:
        note(f"nothing is to be done: {ages.version} starts from what is there")
    elif dry_run:
        note(f"`holdfast log upgrade {typed(path)}` makes a snapshot that a start needs instead")
    else:
        from holdfast.cli.snapshots import snapshot_now

        note(f"a snapshot of {ages.version} stands at position {snapshot_now(path).position}")


def _compacted(path: Path, keep: int, target: Path | None) -> View:
    from holdfast.coordinator.compacting import compact as make_small
    from holdfast.coordinator.embedding import open_embedded
    from holdfast.coordinator.inspect import look_into
    from holdfast.coordinator.settings import Settings

    look_into(path)
    settings = Settings(history_bytes=keep, archive=target)
    embedded = open_embedded(path, settings)
    embedded.engine.start()
    try:
        made = make_small(embedded.snapshotter, embedded.log, path, settings)
    finally:
        embedded.close(lambda: True)
    if made is None:
        raise Trouble(
            f"no snapshot was made: {embedded.snapshotter.last_error}. Nothing has gone. "
            f"`holdfast log verify {typed(path)}` says whether the log is good.",
            REFUSED,
        )
    view: dict[str, Any] = structs.asdict(made)
    return view


def _fields(view: View) -> list[tuple[str, object]]:
    return [
        ("snapshot at", view["position"]),
        ("oldest position", view["oldest"]),
        ("segments gone", view["segments_gone"]),
        ("before", size(view["bytes_before"])),
        ("after", size(view["bytes_after"])),
    ]
