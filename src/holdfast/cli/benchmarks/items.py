"""What a waiting item of a map costs beside its payload, in a coordinator without disk."""

import sys
from pathlib import Path

from holdfast.cli.benchmarks.row import Figure, Row, Values, at_most, main
from holdfast.cli.benchmarks.stepped import CHUNK_ITEMS, PAYLOAD, Stepped, resident_bytes
from holdfast.core.ids import JobId


def run(size: int, folder: Path) -> Values:
    stepped = Stepped()
    for name in ("first", "map"):
        stepped.open_map(JobId(name))
    # The first chunk also pays for what is remembered once.
    stepped.feed(JobId("first"), 0, CHUNK_ITEMS)
    before = resident_bytes()
    stepped.feed(JobId("map"), 0, size)
    each = (resident_bytes() - before) / size
    return {"overhead": each - len(PAYLOAD)}


ROW = Row(
    name="items",
    what="a map of 1,000,000 items, waiting",
    figures=(Figure("overhead", "an item beside its payload", "bytes", at_most(60)),),
    size=1_000_000,
    quick_size=100_000,
    run=run,
)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))
