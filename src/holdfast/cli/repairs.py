"""`holdfast doctor --repair`: what can be mended about a folder or a server, and mending it."""

import getpass
from pathlib import Path
from typing import Final

from holdfast.cli.asking import Asker
from holdfast.cli.output import TABLES, Column, View, draw, emit_list, note
from holdfast.cli.stopping import confirm
from holdfast.coordinator.coordinator import Coordinator
from holdfast.coordinator.embedding import open_embedded
from holdfast.coordinator.repairing import (
    Examination,
    Repair,
    examine,
    mend_files,
    mend_tasks,
    record,
)
from holdfast.coordinator.settings import Settings
from holdfast.wire.bodies import Repairs

NOTHING: Final = "holdfast: there is nothing to mend"


def repair_server(asker: Asker, form: str, reason: str, *, dry_run: bool, yes: bool) -> int:
    """Have a server mend what can be mended, after a look at what that is."""
    look = Repairs(dry_run=True, reason=reason)
    found: list[View] = asker.post("doctor", "repair", body=look)["repairs"]
    if dry_run or not found:
        return _shown(form, found, is_done=False)
    confirm("mend", found, "thing", yes=yes)
    body = Repairs(reason=reason)
    return _shown(form, asker.post("doctor", "repair", body=body)["repairs"], is_done=True)


def repair_folder(path: Path, form: str, reason: str, *, dry_run: bool, yes: bool) -> int:
    """Mend a folder that nobody has open. The dry run takes no lock and changes no byte."""
    found = examine(Examination(str(path)))
    if dry_run or not found:
        return _shown(form, [_view(each, each.deed) for each in found], is_done=False)
    confirm("mend", found, "thing", yes=yes)
    embedded = open_embedded(path, Settings(history_bytes=None))
    try:
        # Nobody else is asked before the engine starts: what is done here comes first.
        done = _mended(embedded.coordinator, found, reason)
    finally:
        embedded.engine.start()
        if any(each.kind == "snapshot" for each in found):
            embedded.snapshotter.make()
        embedded.close(lambda: True)
    return _shown(form, [_view(*each) for each in done], is_done=True)


def _mended(
    coordinator: Coordinator, found: list[Repair], reason: str
) -> list[tuple[Repair, str]]:
    actor = f"cli:{getpass.getuser()}"
    done = [*mend_files(found), *mend_tasks(coordinator, found, actor, reason)]
    record(coordinator, done, actor, reason)
    return done


def _view(found: Repair, deed: str) -> View:
    return {
        "kind": found.kind, "subject": found.subject, "finding": found.finding, "deed": deed,
    }  # fmt: skip


def _shown(form: str, views: list[View], *, is_done: bool) -> int:
    columns = [
        Column("KIND"),
        Column("FOUND", elastic=True),
        Column("DONE" if is_done else "WOULD DO"),
    ]
    rows = [[view["kind"], view["finding"], view["deed"]] for view in views]
    emit_list(form, "repairs", views, draw(columns, rows) if form in TABLES and views else "")
    if not views:
        note(NOTHING)
    return 0
