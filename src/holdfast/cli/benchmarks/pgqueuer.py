"""pgqueuer on PostgreSQL: a thousand to an enqueue, batches of a hundred."""

import sys

from holdfast.cli.benchmarks.peers import peer_row
from holdfast.cli.benchmarks.row import main

ROW = peer_row("pgqueuer", "PostgreSQL, durable", 30_000)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))
