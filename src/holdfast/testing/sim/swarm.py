"""Many seeds, over all processors. Every hundredth is run a second time, by a process that hashes
otherwise, and must leave the very same trace."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import msgspec

from holdfast.testing.sim.coverage import Summary
from holdfast.testing.sim.outcome import Outcome
from holdfast.testing.sim.plan import LIVENESS, MODES, SAFETY

MIXED: Final = "mixed"
CHOICES: Final = (*MODES, MIXED)
LIVELY: Final = 10
"""Of so many seeds one is run for liveness, where both are wanted."""
AGAIN: Final = 100

_decode = msgspec.json.Decoder(Outcome).decode


def mode_of(seed: int, mode: str) -> str:
    if mode != MIXED:
        return mode
    return LIVENESS if seed % LIVELY == 0 else SAFETY


def is_again(seed: int) -> bool:
    return seed % AGAIN == 0


class Child:
    """A process that runs some seeds and tells of each."""

    def __init__(
        self, seeds: Sequence[int], mode: str, hashing: int, told: "SimpleQueue[Outcome | None]"
    ) -> None:
        package_root = str(Path(__file__).parents[3])
        found = os.environ.get("PYTHONPATH")
        path = package_root if not found else f"{package_root}{os.pathsep}{found}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.testing.sim", "tell", "--mode", mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": str(hashing)},
        )
        self._seeds = seeds
        self._told = told
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        child = self._process
        if child.stdin is not None and child.stdout is not None:
            child.stdin.write(msgspec.json.encode(list(self._seeds)))
            child.stdin.close()
            with child.stdout as lines:
                for line in lines:
                    self._told.put(_decode(line))
        child.wait()
        self._told.put(None)

    def end(self) -> int:
        """End it, if it has not ended, and how that was."""
        if self._process.poll() is None:
            self._process.kill()
        self._thread.join()
        return self._process.returncode


def run(
    seeds: Sequence[int],
    mode: str,
    *,
    processes: int,
    tell: Callable[[Outcome, Summary], None],
    go_on: Callable[[Summary], bool],
) -> Summary:
    """Run them all, or until `go_on` says that it is enough."""
    told: SimpleQueue[Outcome | None] = SimpleQueue()
    shares = [list(seeds[place::processes]) for place in range(processes)]
    again = [seed for seed in seeds if is_again(seed)]
    children = [
        Child(share + _others(again, share), mode, place, told)
        for place, share in enumerate(shares)
    ]
    if processes == 1 and again:
        children.append(Child(again, mode, 1, told))
    summary = Summary()
    traces: dict[int, str] = {}
    left = len(children)
    try:
        for outcome in _outcomes(told, left):
            _take(outcome, summary, traces)
            tell(outcome, summary)
            if not go_on(summary):
                break
        else:
            broken = [child.end() for child in children if child.end()]
            if broken:
                raise RuntimeError(f"a process of the simulator ended with {broken}")
    finally:
        for child in children:
            child.end()
    return summary


def _others(again: list[int], share: list[int]) -> list[int]:
    """What another process runs as well: the seeds whose predecessors are one's own."""
    mine = set(share)
    return [seed for seed in again if seed - 1 in mine and seed not in mine]


def _outcomes(told: "SimpleQueue[Outcome | None]", left: int) -> Iterator[Outcome]:
    while left:
        outcome = told.get()
        if outcome is None:
            left -= 1
        else:
            yield outcome


def _take(outcome: Outcome, summary: Summary, traces: dict[int, str]) -> None:
    former = traces.get(outcome.seed)
    if former is None:
        traces[outcome.seed] = outcome.trace
        summary.add(outcome)
        return
    summary.again += 1
    if former != outcome.trace:
        outcome.troubles.append("the same seed gave two runs")
        summary.failed.append(outcome)
