"""Other durable queues beside ours, in the same run: no-op tasks, one worker, durable settings.

They are no dependency of ours. Whichever of them a Python has installed is measured by that
Python: this one, or the one that HOLDFAST_PEERS_PYTHON names.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.cli.benchmarks.cluster import environment
from holdfast.cli.benchmarks.processes import started
from holdfast.cli.benchmarks.row import Figure, Row, RowFailed, Values, at_least, at_most
from holdfast.cli.benchmarks.services import find_postgres, find_redis, postgres, redis, sqlite
from holdfast.cli.benchmarks.tally import Tally

PEER_NAMES: Final = ("pgqueuer", "huey", "dramatiq", "taskiq", "celery")
PYTHON: Final = "HOLDFAST_PEERS_PYTHON"
SCRIPT: Final = Path(__file__).with_name("peer_script.py")
PATIENCE_S: Final = 400.0
CALLS_MAX: Final = 1_000

Store = Callable[[Path], AbstractContextManager[str]]


class Needs(Struct, frozen=True):
    """What must be there for a peer to be measured."""

    libraries: tuple[str, ...]
    store: Store
    is_there: Callable[[], object]
    store_name: str


REDIS: Final = "redis-server"
NEEDS: Final = {
    "pgqueuer": Needs(("pgqueuer", "asyncpg"), postgres, find_postgres, "PostgreSQL"),
    "huey": Needs(("huey",), sqlite, lambda: True, "SQLite"),
    "dramatiq": Needs(("dramatiq", "redis"), redis, find_redis, REDIS),
    "taskiq": Needs(("taskiq", "taskiq_redis"), redis, find_redis, REDIS),
    "celery": Needs(("celery", "redis"), redis, find_redis, REDIS),
}


def peer_row(name: str, how: str, size: int, *, starts: bool = False) -> Row:
    """The row of one peer; `how` names the settings that its figures stand for."""
    figures = [
        Figure("submitted", f"submitted, {how}", "tasks/s"),
        Figure("completed", f"completed, {how}", "tasks/s"),
        Figure("combined", f"submitted and completed, {how}", "lives/s"),
    ]
    if starts:
        figures += [
            Figure("start_p50", "half of the tasks have begun after", "ms"),
            Figure("start_p99", "99 of 100 tasks have begun after", "ms"),
        ]
    return Row(
        name=name,
        what=f"no-op tasks, one worker, {how}",
        figures=tuple(figures),
        size=size,
        quick_size=size // 10,
        run=lambda count, folder: _run(name, count, folder),
    )


def _run(name: str, count: int, folder: Path) -> Values:
    shutil.copy(SCRIPT, folder / "peer.py")
    with NEEDS[name].store(folder) as url:
        told = {"PEER": name, "PEER_URL": url, "dramatiq_queue_prefetch": "500"}
        own = {key: value for key, value in environment(folder).items() if key != "PYTHONPATH"}
        words = (peers_python(), "peer.py", str(count), str(min(count, CALLS_MAX)))
        with started(
            words,
            folder,
            {**own, **told},
            ready=lambda script: script.wait_for_end(PATIENCE_S),
        ) as script:
            figures = folder / "figures.json"
            if not figures.exists():
                raise RowFailed(f"{name} could not be measured: {script.last_words()}")
            measured: dict[str, float] = json.loads(figures.read_text(encoding="utf-8"))
    return measured


def peers_python() -> str:
    return os.environ.get(PYTHON) or sys.executable


def missing(name: str) -> str:
    """What keeps a peer from being measured here; empty where nothing does."""
    needs = NEEDS[name]
    if not needs.is_there():
        return f"there is no {needs.store_name}"
    words = [peers_python(), "-c", f"import {', '.join(needs.libraries)}"]
    try:
        done = subprocess.run(words, capture_output=True, check=False, timeout=PATIENCE_S)
    except OSError as error:
        return f"{words[0]} cannot be run: {error}"
    return "" if done.returncode == 0 else f"it is not installed for {words[0]}"


def beside_peers(tallies: Iterable[Tally]) -> list[Tally]:
    """Our figures over those of the peers of the same run, where both were measured."""
    found = {(tally.row, tally.figure.name): tally for tally in tallies}
    combined = [found[name, "combined"] for name in PEER_NAMES if (name, "combined") in found]
    made: list[Tally] = []
    lives = found.get(("server", "lives"))
    if lives is not None and combined:
        best = max(combined, key=lambda tally: tally.median)
        what = f"lives over those of {best.row}, the fastest peer"
        made.append(_ratio(Figure("ratio_to_peers", what, "×", at_least(2)), lives, best))
    for name, share in (("start_p50", "half"), ("start_p99", "99 of 100")):
        ours, theirs = found.get(("latency-server", name)), found.get(("taskiq", name))
        if ours is not None and theirs is not None:
            figure = Figure(f"{name}_ratio", f"{share} begun, over taskiq", "×", at_most(1))
            made.append(_ratio(figure, ours, theirs))
    return made


def _ratio(figure: Figure, ours: Tally, theirs: Tally) -> Tally:
    """Run by run, so that the spread of both shows."""
    values = tuple([a / b for a, b in zip(ours.values, theirs.values, strict=True)])
    return Tally(ours.row, figure, ours.size, values, ours.is_quick)
