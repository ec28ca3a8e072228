"""taskiq on Redis streams that are acknowledged and synced at every write."""

import sys

from holdfast.cli.benchmarks.peers import peer_row
from holdfast.cli.benchmarks.row import main

ROW = peer_row("taskiq", "Redis streams, AOF always", 5_000, starts=True)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))
