"""What a folder keeps of printed output: what a server left in it, and nothing of this program."""

from pathlib import Path
from typing import Final

from holdfast.client.errors import Refused
from holdfast.coordinator.output import FOLDER, OutputGone, OutputStore
from holdfast.coordinator.outputparts import StreamName
from holdfast.core.ids import Index, JobId
from holdfast.wire.output import Output

PIECE: Final = 256 * 1024
NOT_KEPT: Final = (
    "nothing that {} printed is kept: inside a program, tasks print to its own stdout and stderr. "
    "A server keeps what tasks print: `holdfast serve`, and holdfast.connect() here."
)


def kept_output(
    folder: Path, job_id: JobId, index: Index, attempt: int, stream: str, offset: int
) -> Output:
    """Some bytes of a stream that was printed while this folder was served."""
    name = StreamName(job_id, index, attempt, stream)
    try:
        piece = OutputStore(folder / FOLDER).read(name, offset, PIECE)
    except OutputGone as gone:
        raise Refused("gone", str(gone)) from None
    if not piece.content and not piece.next:
        raise Refused("not_kept", NOT_KEPT.format(f"{job_id}/{index}:{attempt}"))
    return Output(piece.offset, piece.content, piece.next, piece.dropped, not piece.content)
