"""The stores that other queues need, started on loopback for a row and ended with it."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT
from typing import Final

from holdfast.cli.benchmarks.processes import started
from holdfast.cli.benchmarks.row import RowFailed
from holdfast.wire.ports import held_port

POSTGRES_HOMES: Final = "/usr/lib/postgresql"
STAND_INS: Final = ("postgres", "nobody")
"""Who runs PostgreSQL where we are root, which it refuses."""


def find_redis() -> str | None:
    return shutil.which("redis-server")


def find_postgres() -> Path | None:
    """The folder of its programs: that on the path, else the newest that is installed."""
    found = shutil.which("postgres")
    if found is not None:
        return Path(found).resolve().parent
    homes = [place.parent for place in Path(POSTGRES_HOMES).glob("*/bin/postgres")]
    return max(homes, key=lambda home: _number(home.parent.name), default=None)


@contextmanager
def sqlite(folder: Path) -> Iterator[str]:
    """A file needs nobody to serve it."""
    yield str(folder / "queue.sqlite")


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """Redis that syncs every write before it is answered."""
    program = find_redis()
    if program is None:
        raise RowFailed("there is no redis-server here")
    place = folder / "redis"
    place.mkdir()
    with held_port() as held:
        port = held.getsockname()[1]
        words = (
            program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(place),
            "--appendonly", "yes", "--appendfsync", "always", "--save", "",
        )  # fmt: skip
        with started(
            words, place, os.environ, ready=lambda server: server.wait_to_hear("Ready to accept")
        ):
            yield f"redis://127.0.0.1:{port}/0"


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """PostgreSQL as it is installed: every commit is synced before it is answered."""
    programs = find_postgres()
    if programs is None:
        raise RowFailed("there is no PostgreSQL here")
    user = _stand_in()
    place = folder / "postgres"
    place.mkdir()
    if user is not None:
        # Ours alone until now, and somebody else has to find the way in.
        folder.chmod(0o711)
        shutil.chown(place, user)
    # Making it is not measured, so nothing of that is synced; what is measured is.
    made = ("-D", str(place / "db"), "-A", "trust", "-U", "bench", "--locale=C", "-E", "UTF8")
    _make((str(programs / "initdb"), "-N", *made), place, user)
    with held_port() as held:
        port = held.getsockname()[1]
        words = (
            str(programs / "postgres"), "-D", str(place / "db"), "-p", str(port),
            "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
        )  # fmt: skip
        with started(
            words,
            place,
            {"PATH": os.defpath},
            ready=lambda server: server.wait_to_hear("ready to accept connections"),
            user=user,
            end_by=SIGINT,
        ):
            yield f"postgresql://bench@127.0.0.1:{port}/postgres"


def _make(words: Sequence[str], place: Path, user: str | None) -> None:
    done = subprocess.run(
        words,
        cwd=place,
        env={"PATH": os.defpath},
        capture_output=True,
        check=False,
        text=True,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        who = f" as {user}, since root may not," if user else ""
        raise RowFailed(f"PostgreSQL{who} could not be set up: {said[-1]}")


def _stand_in() -> str | None:
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in STAND_INS:
        if name in known:
            return name
    raise RowFailed("PostgreSQL does not run as root, and there is nobody else to run it")


def _number(name: str) -> int:
    return int(name) if name.isdigit() else 0
