"""`holdfast log fork`, `salvage` and `resume`: a new log that goes on from another one."""

import getpass
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
from msgspec import structs, to_builtins

from holdfast.cli.errors import USAGE, Trouble
from holdfast.cli.logs import in_folder
from holdfast.cli.options import output_option, reason_option, server_options
from holdfast.cli.output import draw_fields, emit_one, note, typed
from holdfast.cli.reading import at_option, folder_of

SHOWN: Final = 10

to_option = click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path),
    required=True,
    metavar="NEWDIR",
    help="The folder to make; it must not exist.",
)


def _actor() -> str:
    return f"cli:{getpass.getuser()}"


@click.command()
@in_folder
@at_option
@to_option
@reason_option
@output_option
def fork(
    folder: Path | None, data: Path | None, at: Any, target: Path, reason: str, form: str
) -> None:
    """Make a new log that ends at a moment of this one: the safe form of going back.

    The folder is left as it is, and may be in use. The new log has an id of its own and opens
    suspended: it can be looked at, submitted to and cancelled in, and gives nothing out before
    `holdfast log resume`. Whatever was leased at that moment waits again. What commits owed then is
    owed still, under the same keys: if both logs work, both deliver it.
    """
    from holdfast.coordinator.forking import fork_folder
    from holdfast.coordinator.inspect import Moment
    from holdfast.core.ids import Instant

    path = folder_of(folder or data)
    forked = fork_folder(
        path, target, at or Moment(), wall=Instant(time.time_ns() // 1_000_000), actor=_actor(),
        reason=reason,
    )  # fmt: skip
    fields: list[tuple[str, object]] = [
        ("folder", forked.folder),
        ("log", forked.log_id),
        ("comes from", f"{forked.origin}, position {forked.at_position}"),
        ("jobs", forked.jobs),
        ("attempts ended", forked.ended or None),
        ("state hash", forked.state_hash),
    ]
    emit_one(form, structs.asdict(forked), draw_fields(fields))
    note(f"it is suspended; `holdfast log resume {typed(target)}` lets it work")


@click.command()
@in_folder
@click.option(
    "--to", "target", type=click.Path(path_type=Path), metavar="NEWDIR",
    help="The folder to make; it must not exist.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be saved and what is lost.")
@reason_option
@output_option
def salvage(
    folder: Path | None,
    data: Path | None,
    target: Path | None,
    dry_run: bool,
    reason: str,
    form: str,
) -> None:
    """Make a new log of what can be read of a damaged one, and say what is lost.

    The damaged folder is left as it is. The new log goes on above every lease, job and epoch that
    can be seen in the old one. A task that a readable record behind the hole names, or that was
    held where the history ends, is quarantined: nobody runs it again before a person has looked.
    The new log opens suspended; salvage-report.json in it says the same as this command.
    """
    from holdfast.coordinator.forking import build, check_target
    from holdfast.coordinator.salvage import plan_salvage
    from holdfast.core.ids import Instant

    if target is None and not dry_run:
        raise Trouble("Name the folder to make with --to NEWDIR, or only look: --dry-run.", USAGE)
    path = folder_of(folder or data)
    if target is not None:
        check_target(target)
    plan, loss = plan_salvage(
        path, wall=Instant(time.time_ns() // 1_000_000), actor=_actor(), reason=reason
    )
    view = {"dry_run": dry_run, "new_log_id": None, **to_builtins(loss)}
    if target is not None and not dry_run:
        view["new_log_id"] = build(plan, target).log_id
    emit_one(form, view, draw_fields(_loss_fields(loss, view["new_log_id"])))
    if dry_run or target is None:
        note(f"nothing was written; `holdfast log salvage {typed(path)} --to NEWDIR` does it")
    else:
        note(
            f"it is suspended. Look at `holdfast job list --data {typed(target)}`, then "
            f"`holdfast log resume {typed(target)}` lets it work"
        )


def _loss_fields(loss: Any, new_id: str | None) -> list[tuple[str, object]]:
    hole = loss.hole
    to = loss.lost_to or "nobody knows where"
    behind = f"{loss.records_behind:,} in {loss.frames_behind:,} frames"
    if loss.records_unreadable:
        behind += f", {loss.records_unreadable:,} of them unreadable"
    fields: list[tuple[str, object]] = [
        ("folder", loss.folder),
        ("log", loss.log_id),
        ("good until", f"position {loss.good_until}"),
        ("damage", f"{hole['file']}, byte {hole['offset']}: {hole['why']}"),
        ("positions lost", f"{loss.lost_from} to {to}" if loss.lost_from else "none"),
        ("bytes unreadable", f"{loss.lost_bytes:,}"),
        ("records behind the hole", behind if loss.records_behind else None),
        ("jobs saved", loss.jobs_kept),
        ("tasks quarantined", _counted(loss.quarantined_count, loss.quarantined)),
        ("jobs lost", _counted(len(loss.jobs_lost), [str(j["id"]) for j in loss.jobs_lost])),
        ("items lost", ", ".join(f"{n} of {job}" for job, n in loss.items_lost.items()) or None),
        ("runs lost", ", ".join(f"{n} of {s}" for s, n in loss.schedules_fired.items()) or None),
        ("results lost", _counted(loss.results_lost_count, loss.results_lost)),
        ("new log", new_id),
    ]
    return fields


def _counted(count: int, names: Sequence[str]) -> str | None:
    if not count:
        return None
    more = ", …" if count > SHOWN else ""
    return f"{count:,}: {', '.join(names[:SHOWN])}{more}"


@click.command()
@in_folder
@reason_option
@server_options
def resume(
    folder: Path | None,
    data: Path | None,
    reason: str,
    server: str | None,
    token_file: Path | None,
) -> None:
    """Let a log work that was forked or salvaged.

    Asks the server that has it open; with DIR, opens the folder itself, which nobody else may have
    open then.
    """
    if folder is None and data is None:
        from holdfast.cli.asking import asking
        from holdfast.wire.bodies import Reason

        with asking(server, token_file) as asker:
            was = asker.post("log", "resume", body=Reason(reason=reason))["was"]
    else:
        if server is not None:
            raise Trouble("DIR opens a folder and --server asks a server: name one.", USAGE)
        was = _resume_folder(folder_of(folder or data), reason)
    if was:
        note(f"the log works again; it was suspended since its {was}")
    else:
        note("the log is at work: nothing was to be done")


def _resume_folder(path: Path, reason: str) -> str:
    from holdfast.coordinator.embedding import open_embedded
    from holdfast.coordinator.inspect import look_into
    from holdfast.coordinator.settings import Settings
    from holdfast.core import commands as c

    look_into(path)
    embedded = open_embedded(path, Settings(history_bytes=None))
    was = embedded.coordinator.state.suspended
    embedded.coordinator.execute(c.ResumeLog(), actor=_actor(), reason=reason)
    embedded.engine.start()
    embedded.close(lambda: True)
    return was
