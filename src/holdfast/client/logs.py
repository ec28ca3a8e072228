"""What a task has printed, as text: asked of whoever keeps it, piece by piece."""

from typing import Final

from holdfast.client.backend import Backend
from holdfast.core.ids import Index, JobId

STREAMS: Final = ("stdout", "stderr")


def read_logs(
    backend: Backend, job_id: JobId, index: int, *, attempt: int | None, stream: str
) -> str:
    """All that is kept of one stream of an attempt, by default the last one. What had to make room
    is told where it was."""
    if stream not in STREAMS:
        raise ValueError(f"stream={stream!r} is one of {', '.join(STREAMS)}")
    if attempt is not None and attempt < 1:
        raise ValueError(f"attempt={attempt!r}: the first one is 1")
    chosen = attempt or backend.attempts_of(job_id, Index(index))
    if not chosen:
        return ""
    parts: list[bytes] = []
    offset = 0
    while True:
        piece = backend.output(job_id, Index(index), chosen, stream, offset)
        if piece.dropped:
            parts.append(f"… {piece.dropped:,} bytes are not kept …\n".encode())
        parts.append(piece.content)
        if piece.ended or not (piece.content or piece.dropped):
            return b"".join(parts).decode(errors="replace")
        offset = piece.next
