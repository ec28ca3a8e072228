"""Copies a tree, plants a mistake in the copy, and sees whether anybody notices.

`make plants` runs every mistake of tests/plants.toml, and the tree without one as a control, and
writes what came of it to docs/plants.md. A test that cannot fail proves nothing.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
from msgspec import Struct

TABLE: Final = Path("tests/plants.toml")
PATIENCE_S: Final = 1_800
FIRST: Final = 1
MIXED: Final = "mixed"
MODES: Final = ("safety", "liveness")


class Misplanted(Exception):
    """The text of an edit is not in the tree exactly once: the table has to follow the code."""


class Edit(Struct, frozen=True, forbid_unknown_fields=True):
    file: str
    old: str
    new: str


class Plant(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A mistake: what was forgotten, and the lines that would be so if it had been. `seeds` is how
    many are run at most; `tests` are those that catch what the simulator cannot reach, and `why`
    says why it cannot."""

    name: str
    about: str
    edits: tuple[Edit, ...]
    mode: str = MIXED
    seeds: int = 60
    tests: tuple[str, ...] = ()
    why: str = ""


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    plants: tuple[Plant, ...]


class Caught(Struct, frozen=True):
    """What came of a plant. `seeds` is how many were run until it was caught, 0 where tests did;
    `trouble` is what was noticed first."""

    name: str
    is_caught: bool
    by: str
    seeds: int
    seconds: float
    trouble: str


def plants_of(root: Path) -> tuple[Plant, ...]:
    return msgspec.toml.decode((root / TABLE).read_bytes(), type=Table).plants


def planted(root: Path, edits: Sequence[Edit]) -> dict[Path, str]:
    """The files that the edits change, as they would be."""
    changed: dict[Path, str] = {}
    for edit in edits:
        path = Path("src") / "holdfast" / edit.file
        source = changed.get(path) or (root / path).read_text()
        found = source.count(edit.old)
        if found != 1:
            raise Misplanted(f"{edit.file}: {edit.old!r} is there {found} times")
        changed[path] = source.replace(edit.old, edit.new)
    return changed


@contextmanager
def copy_with(root: Path, edits: Sequence[Edit]) -> Iterator[Path]:
    """A copy of the tree with these edits; it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="holdfast-plant-") as folder:
        copy = Path(folder)
        skipped = shutil.ignore_patterns("__pycache__", ".*")
        for name in ("src", "tests"):
            shutil.copytree(root / name, copy / name, ignore=skipped)
        shutil.copy(root / "pyproject.toml", copy)
        for path, source in planted(root, edits).items():
            (copy / path).write_text(source)
        yield copy


def try_plant(root: Path, plant: Plant, *, first: int = FIRST) -> Caught:
    """Whether the simulator, or the tests that the table names, notice this mistake."""
    with copy_with(root, plant.edits) as copy:
        if plant.tests:
            return _by_tests(plant, copy)
        return _by_simulation(plant, copy, first)


def _by_simulation(plant: Plant, copy: Path, first: int) -> Caught:
    command = [
        *(sys.executable, "-m", "holdfast.testing.sim", "run", "--processes", "1"),
        *("--seeds", str(plant.seeds), "--first", str(first), "--mode", plant.mode),
        "--no-shrink",
    ]
    done, seconds = _run(command, copy)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    told = msgspec.json.decode(lines[-1]) if lines else {}
    if told.get("failed") and "seed" in told:
        seeds = int(told["seed"]) - first + 1
        return Caught(plant.name, True, "simulator", seeds, seconds, str(told["trouble"]))
    if done.returncode and not lines:
        last = (done.stderr.strip().splitlines() or ["it died"])[-1]
        # Whatever judges has to be whole: this is no judgement.
        return Caught(plant.name, False, "nobody: the simulator broke", 1, seconds, last)
    return Caught(plant.name, False, "nobody", plant.seeds, seconds, "")


def _by_tests(plant: Plant, copy: Path) -> Caught:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *plant.tests]
    done, seconds = _run(command, copy)
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    trouble = failed[0].partition("::")[2] if failed else ""
    return Caught(plant.name, bool(failed), "tests", 0, seconds, trouble)


def _run(command: list[str], copy: Path) -> "tuple[subprocess.CompletedProcess[str], float]":
    began = time.monotonic()
    done = subprocess.run(
        command,
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done, time.monotonic() - began


def page(plants: Sequence[Plant], found: Sequence[Caught], day: str) -> str:
    """The table as a document."""
    about = {plant.name: plant for plant in plants}
    seeds = [each.seeds for each in found if each.is_caught and each.seeds]
    lines = [
        "# Planted mistakes",
        "",
        "A test that cannot fail proves nothing. Each of these mistakes was made in a copy of the",
        "tree, and somebody had to notice; the tree without a mistake ran through the same seeds",
        "and nobody did. No switch of this kind is in the code: the edits are in",
        "[tests/plants.toml](../tests/plants.toml).",
        "",
        f"{sum(each.is_caught for each in found)} of {len(found)} were caught; by the simulator",
        f"after {median(seeds) if seeds else 0:g} seeds in the median, {max(seeds, default=0)} at",
        f"most. Taken on {day} with `make plants`.",
        "",
        "| mistake | what was forgotten | caught by | seeds | what was noticed |",
        "|---|---|---|---|---|",
    ]
    for each in found:
        by = each.by if each.is_caught else f"**{each.by}**"
        trouble = " ".join(each.trouble.replace("|", "/").split())[:100]
        shown = each.seeds or "–"
        lines.append(f"| {each.name} | {about[each.name].about} | {by} | {shown} | {trouble} |")
    unreached = [plant for plant in plants if plant.why]
    if unreached:
        lines += ["", "Not by the simulator, and why:", ""]
        lines += [f"- {plant.name}: {plant.why}." for plant in unreached]
    return "\n".join(lines) + "\n"


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 where a mistake goes unnoticed, or something is noticed where none is."""
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.planting")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these; default all")
    parser.add_argument("--write", type=Path, help="write what came of it to this file")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    root = Path.cwd()
    plants = plants_of(root)
    chosen = [plant for plant in plants if plant.name in options.names or not options.names]
    jobs = [*chosen, *(() if options.names else _controls(chosen))]
    found: list[Caught] = []
    with ThreadPoolExecutor(options.processes) as pool:
        for each in pool.map(lambda plant: try_plant(root, plant), jobs):
            found.append(each)
            told = f"{each.by} after {each.seeds} seeds" if each.is_caught else "not caught"
            say(f"{each.name:28} {told}, {each.seconds:.0f} s: {each.trouble[:120]}")
    real, controls = found[: len(chosen)], found[len(chosen) :]
    caught = sum(each.is_caught for each in real)
    if options.write is not None:
        options.write.write_text(page(plants, real, time.strftime("%Y-%m-%d")))
    wrong = [each.name for each in controls if each.is_caught]
    say(f"{caught} of {len(real)} caught" + (f"; and wrongly: {', '.join(wrong)}" if wrong else ""))
    return 0 if caught == len(real) and not wrong else 1


def _controls(plants: Sequence[Plant]) -> list[Plant]:
    """The same without any mistake, in every mode, through as many seeds: nothing may be
    noticed."""
    most = max((plant.seeds for plant in plants), default=0)
    return [
        Plant(name=f"no mistake, {mode}", about="", edits=(), mode=mode, seeds=most)
        for mode in MODES
    ]


if __name__ == "__main__":
    sys.exit(main())
