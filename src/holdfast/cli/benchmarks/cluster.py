"""A server and its workers for a row: the real commands, as processes on loopback."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

import holdfast
from holdfast.cli.benchmarks.processes import Started, started

PACKAGE: Final = Path(holdfast.__file__).parent.parent
COMMAND: Final = (sys.executable, "-m", "holdfast")


class Cluster(Struct, frozen=True):
    """A server that takes requests, and where its token is."""

    url: str
    token_file: Path
    server: Started

    @property
    def token(self) -> str:
        return self.token_file.read_text(encoding="utf-8").strip()


@contextmanager
def serving(folder: Path) -> Iterator[Cluster]:
    """`holdfast serve` on a folder of its own."""
    token_file = folder / "token"
    words = (
        *COMMAND, "serve", "--data", str(folder / "served"), "--listen", "127.0.0.1:0",
        "--token-file", str(token_file),
    )  # fmt: skip
    with started(
        words, folder, environment(folder), ready=lambda server: server.wait_to_hear("serving")
    ) as server:
        beside = token_file.with_name(f"{token_file.name}.server")
        yield Cluster(beside.read_text(encoding="utf-8").strip(), token_file, server)


@contextmanager
def working(cluster: Cluster, folder: Path) -> Iterator[Started]:
    """One `holdfast worker start`, with its defaults."""
    words = (
        *COMMAND, "worker", "start", "--server", cluster.url,
        "--token-file", str(cluster.token_file), "--name", "bench",
    )  # fmt: skip
    with started(
        words, folder, environment(folder), ready=lambda worker: worker.wait_to_hear("connected")
    ) as worker:
        yield worker


def environment(folder: Path) -> dict[str, str]:
    """Ours, without what people have set for servers of their own, and with this very package."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    paths = [str(PACKAGE), *filter(None, [kept.get("PYTHONPATH")])]
    own = {
        name: str(folder / name.lower())
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME")
    }
    return {**kept, **own, "PYTHONPATH": os.pathsep.join(paths)}


def processor_s(pid: int) -> float:
    """What a process has used of the processors since it began, in the kernel too."""
    import psutil

    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
