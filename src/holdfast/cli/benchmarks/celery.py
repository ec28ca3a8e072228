"""Celery on Redis that syncs every write, acknowledged late, with a process a core."""

import sys

from holdfast.cli.benchmarks.peers import peer_row
from holdfast.cli.benchmarks.row import main

ROW = peer_row("celery", "acks_late, Redis AOF always", 2_000)

if __name__ == "__main__":
    sys.exit(main(ROW, sys.argv[1:]))
