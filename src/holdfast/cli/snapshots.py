"""Making a snapshot of a folder that nobody has open."""

from pathlib import Path

from holdfast.cli.errors import REFUSED, Trouble
from holdfast.cli.output import typed
from holdfast.coordinator.embedding import open_embedded
from holdfast.coordinator.settings import Settings
from holdfast.coordinator.snapshotting import Made


def snapshot_now(path: Path) -> Made:
    """Take the folder, have a snapshot made and recorded, let the folder go.

    `LogInUse` where another program has it. All history is kept: letting go of it is a choice of
    the program that owns the folder.
    """
    embedded = open_embedded(path, Settings(history_bytes=None))
    embedded.engine.start()
    try:
        made = embedded.snapshotter.make()
    finally:
        embedded.close(lambda: True)
    if made is None:
        raise Trouble(
            f"no snapshot was made: {embedded.snapshotter.last_error}. Nothing was changed. "
            f"`holdfast log verify {typed(path)}` says whether the log is good.",
            REFUSED,
        )
    return made
