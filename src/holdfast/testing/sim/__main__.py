"""`python -m holdfast.testing.sim run --seeds 500`; a failure prints the line that repeats it."""

import argparse
import logging
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from holdfast.testing.sim.coverage import Summary
from holdfast.testing.sim.outcome import Outcome
from holdfast.testing.sim.plan import drawn
from holdfast.testing.sim.shrink import smallest
from holdfast.testing.sim.simulation import simulate
from holdfast.testing.sim.swarm import CHOICES, MIXED, mode_of, run

HOUR_MS: Final = 3_600_000
PROGRESS_S: Final = 10.0
NONE: Final = "none"
COVERS: Final = 500
"""So many seeds and more must have met everything there is to meet."""


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.sim", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    runs = verbs.add_parser("run", help="run seeds, and judge them")
    runs.add_argument("--seeds", type=int, default=100, help="how many")
    runs.add_argument("--first", type=int, default=1, help="the first of them")
    runs.add_argument("--seed", type=int, help="this one alone")
    runs.add_argument("--faults", help="of its faults only these, as 3,17, or none")
    runs.add_argument("--mode", choices=CHOICES, default=MIXED)
    runs.add_argument("--hours", type=float, help="end when so much time was simulated")
    runs.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    runs.add_argument("--summary", type=Path, help="write what was counted to this file")
    runs.add_argument("--no-shrink", action="store_true", help="leave a failing run as it is")
    tells = verbs.add_parser("tell", help="run the seeds that stdin lists, one JSON line for each")
    tells.add_argument("--mode", choices=CHOICES, default=MIXED)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    logging.getLogger("holdfast").setLevel(logging.CRITICAL + 1)
    options = parsed(arguments)
    if options.verb == "tell":
        for seed in msgspec.json.decode(sys.stdin.buffer.read(), type=list[int]):
            outcome = simulate(seed, mode_of(seed, options.mode))
            sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")
            sys.stdout.buffer.flush()
        return 0
    if options.seed is not None:
        return _run_one(options)
    return _run_many(options)


def _run_one(options: argparse.Namespace) -> int:
    mode = mode_of(options.seed, options.mode)
    only = None
    if options.faults is not None:
        listed = options.faults.split(",") if options.faults != NONE else ()
        only = tuple(int(number) for number in listed)
    began = time.monotonic()
    scenario = drawn(options.seed, mode, only)
    for fault in scenario.faults:
        say(f"  {fault.number:4} {fault.at_ms / 1_000:8.3f} s  {fault.kind} {fault.point}")
    outcome = simulate(options.seed, mode, only)
    seconds = time.monotonic() - began
    say(
        f"seed {outcome.seed}, {mode}: {outcome.simulated_ms / 1_000:.0f} s simulated in "
        f"{seconds:.1f} s, {outcome.records} records, trace {outcome.trace}"
    )
    if outcome.troubles:
        _tell_failure(outcome, seconds, shrink=only is None and not options.no_shrink)
    return 1 if outcome.troubles else 0


def _run_many(options: argparse.Namespace) -> int:
    began = said = time.monotonic()
    seeds = range(options.first, options.first + options.seeds)

    def tell(outcome: Outcome, summary: Summary) -> None:
        nonlocal said
        if time.monotonic() - said >= PROGRESS_S:
            said = time.monotonic()
            say(_line(summary, said - began))

    def go_on(summary: Summary) -> bool:
        is_long = options.hours is not None and summary.simulated_ms >= options.hours * HOUR_MS
        return not summary.failed and not is_long

    summary = run(seeds, options.mode, processes=options.processes, tell=tell, go_on=go_on)
    seconds = time.monotonic() - began
    say(_line(summary, seconds))
    if options.summary is not None:
        options.summary.write_bytes(msgspec.json.format(msgspec.json.encode(summary)) + b"\n")
    if summary.failed:
        _tell_failure(summary.failed[0], seconds, shrink=not options.no_shrink)
        return 1
    missing = summary.missing()
    if missing and summary.seeds >= COVERS:
        say("never happened: " + ", ".join(missing))
        say(msgspec.json.encode({"failed": True, "missing": missing, "seconds": seconds}).decode())
        return 1
    say(
        msgspec.json.encode(
            {"failed": False, "seeds": summary.seeds, "seconds": seconds}
        ).decode()
    )
    return 0


def _line(summary: Summary, seconds: float) -> str:
    hours = summary.simulated_ms / HOUR_MS
    return (
        f"{summary.seeds} seeds, {summary.liveness} of them for liveness, {summary.again} twice; "
        f"{hours:.2f} h simulated in {seconds:.0f} s, {3600 * hours / max(seconds, 1):.0f} times "
        f"real time; {sum(summary.faults.values())} faults, {summary.records} records, "
        f"{len(summary.failed)} failed"
    )


def _tell_failure(outcome: Outcome, seconds: float, *, shrink: bool) -> None:
    for trouble in outcome.troubles:
        say(f"  {trouble}")
    faults: tuple[int, ...] = ()
    if shrink:
        numbers = [fault.number for fault in drawn(outcome.seed, outcome.mode).faults]
        faults = smallest(
            numbers, lambda only: bool(simulate(outcome.seed, outcome.mode, only).troubles)
        )
    listed = f" FAULTS={','.join(map(str, faults)) or NONE}" if shrink else ""
    say(f"make sim SEED={outcome.seed} MODE={outcome.mode}{listed}")
    told = {
        "failed": True, "seed": outcome.seed, "mode": outcome.mode, "seconds": seconds,
        "faults": faults if shrink else None, "trouble": outcome.troubles[0],
    }  # fmt: skip
    say(msgspec.json.encode(told).decode())


if __name__ == "__main__":
    sys.exit(main())
