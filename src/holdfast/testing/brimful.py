"""A program whose files may not grow beyond a byte: `python -m holdfast.testing.brimful FOLDER N`.

It writes N records, and for each of them first as much as fits before every one of its bytes. The
limit is the kernel's own: a write is cut short there, and the next one fails.
"""

import resource
import signal
import sys
from pathlib import Path
from typing import Final

from holdfast.core.errors import LogFailed
from holdfast.testing.log_stories import Lost
from holdfast.testing.logs import put, records_of
from holdfast.wal import FileLog
from holdfast.wal.frames import HEADER_BYTES

SEGMENT_BYTES: Final = 16 * 1024
_, MOST = resource.getrlimit(resource.RLIMIT_FSIZE)


def limit(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, MOST))


def record(number: int) -> bytes:
    return bytes([33 + number]) * (number * 17 % 40 + 1)


def open_log(folder: Path) -> FileLog:
    return FileLog.open(folder, segment_bytes=SEGMENT_BYTES)


def is_cut_short(log: FileLog, size: int, content: bytes) -> bool:
    limit(size)
    try:
        log.append([content], at=0, wall=0)
    except LogFailed:
        return True
    finally:
        limit(MOST)
    return False


def fill(folder: Path, number: int) -> int:
    """The record of this number, cut short before each of its bytes; how often that was."""
    content, cuts = record(number), 0
    for budget in range(HEADER_BYTES + 4 + len(content)):
        log = open_log(folder)
        if not is_cut_short(log, log._segment.end + budget, content):
            raise Lost(f"record {number} was written into {budget} bytes")
        log.close()
        cuts += 1
    log = open_log(folder)
    if records_of(log) != [record(earlier) for earlier in range(number)]:
        raise Lost(f"{log.last} records are there, and {number} were acknowledged")
    put(log, content)
    log.close()
    return cuts


def main() -> None:
    # Without this the first write beyond the limit would be the last.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    sys.stdout.write(f"{sum(fill(folder, number) for number in range(count))}\n")


if __name__ == "__main__":
    main()
