"""The queue a program would write on SQLite in an afternoon: the least that Holdfast must beat.

Every commit is synced (`synchronous=FULL`). A hundred tasks share a transaction in each of the
three steps: insert, claim, complete. There are no leases, retries, budgets or history.
"""

import sqlite3
import time
from pathlib import Path

from holdfast.cli.benchmarks.work import noop

BATCH = 100

SCHEMA = """
CREATE TABLE queue (id INTEGER PRIMARY KEY, state INTEGER, payload INTEGER, result INTEGER);
CREATE INDEX waiting ON queue (id) WHERE state = 0;
"""
INSERT = "INSERT INTO queue (id, state, payload) VALUES (?, 0, ?)"
CLAIM = """
UPDATE queue SET state = 1 WHERE id IN (SELECT id FROM queue WHERE state = 0 ORDER BY id LIMIT ?)
RETURNING id, payload
"""
COMPLETE = "UPDATE queue SET state = 2, result = ? WHERE id = ?"


def lives_per_second(path: Path, count: int, journal: str) -> float:
    """Whole lives of `count` tasks, in a database file of its own."""
    queue = sqlite3.connect(path, isolation_level=None)
    try:
        queue.execute(f"PRAGMA journal_mode={journal}")
        queue.execute("PRAGMA synchronous=FULL")
        queue.executescript(SCHEMA)
        began = time.perf_counter()
        for start in range(0, count, BATCH):
            queue.execute("BEGIN IMMEDIATE")
            queue.executemany(INSERT, [(n, n) for n in range(start, min(start + BATCH, count))])
            queue.execute("COMMIT")
        while _serve(queue):
            pass
        return count / (time.perf_counter() - began)
    finally:
        queue.close()


def _serve(queue: sqlite3.Connection) -> bool:
    """Claim a batch, run it, complete it. False when nothing waits any more."""
    queue.execute("BEGIN IMMEDIATE")
    claimed = queue.execute(CLAIM, (BATCH,)).fetchall()
    queue.execute("COMMIT")
    if not claimed:
        return False
    results = [(noop(payload), task) for task, payload in claimed]
    queue.execute("BEGIN IMMEDIATE")
    queue.executemany(COMPLETE, results)
    queue.execute("COMMIT")
    return True
