"""What a waiting job of one task costs in memory, in a coordinator without disk.

All jobs ask for the same function, as a program that submits a million of them does; the name of
the job and its payload are counted with it.
"""

import sys
from pathlib import Path

from holdfast.cli.benchmarks.row import Figure, Row, Values, at_most, main
from holdfast.cli.benchmarks.stepped import Stepped, resident_bytes

WARM_JOBS = 1_000


def run(size: int, folder: Path) -> Values:
    stepped = Stepped()
    stepped.submit_singles(0, WARM_JOBS)
    before = resident_bytes()
    stepped.submit_singles(WARM_JOBS, size)
    return {"waiting": (resident_bytes() - before) / size}


ROW = Row(
    name="singles",
    what="1,000,000 jobs of one task, waiting",
    figures=(Figure("waiting", "a waiting job", "bytes", at_most(700)),),
    size=1_000_000,
    quick_size=50_000,
    run=run,
)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))
