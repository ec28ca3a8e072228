"""huey on SQLite that syncs every commit, with one thread."""

import sys

from holdfast.cli.benchmarks.peers import peer_row
from holdfast.cli.benchmarks.row import main

ROW = peer_row("huey", "SQLite FULL", 4_000)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))
