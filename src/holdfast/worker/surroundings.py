"""What a command finds around it: a folder of its own, a little of the worker's environment, the
names of what it works for, and the secrets it was promised.

A secret is named in the job and looked up here, so its value is in no log. It is taken out of
whatever this worker reports, too.
"""

import os
import shutil
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from holdfast.core.ids import WorkerId
from holdfast.core.spec import STOP
from holdfast.core.unreadable import UNREADABLE
from holdfast.wire.bodies import Command
from holdfast.wire.exchange import Item, Run
from holdfast.wire.service import SERVICE
from holdfast.worker.bearings import bearings
from holdfast.worker.captures import STREAMS
from holdfast.worker.errands import Launch

PASSED: Final = frozenset({"PATH", "HOME", "LANG", "TZ", "TMPDIR"})
PASSED_PREFIX: Final = "LC_"
SECRET: Final = "secret:"  # noqa: S105 - how one is named, not one itself
SECRET_VARIABLE: Final = "HOLDFAST_SECRET_"  # noqa: S105 - the same
OUTPUTS_MAX: Final = 1_000
"""Of so many attempts the output is kept; the oldest goes first."""

_DECODE: Final = msgspec.msgpack.Decoder(Command).decode


class Unprepared(Exception):
    """A command that cannot even be tried here: the message says why, and holds no secret."""


class Prepared(Struct, frozen=True):
    """A command ready to start, its folder, and what must not be repeated of it."""

    launch: Launch
    folder: Path
    program: str
    secrets: tuple[str, ...]

    def printed_bytes(self) -> int:
        """How much it has printed so far, as far as that can be seen."""
        outputs = Path(os.fsdecode(self.launch.outputs))
        try:
            return sum((outputs / stream).stat().st_size for stream in STREAMS)
        except OSError:
            return 0


class Surroundings:
    """`scratch` is this worker's alone. `environment` is what the worker was started with.
    `bundles` is the folder in which unpacked bundles are found by their digests.

    A command with a bundle runs inside it: the folder is shared and read-only, and the command's
    own folder is told by HOLDFAST_TASK_DIR."""

    def __init__(
        self,
        scratch: Path,
        worker: WorkerId,
        *,
        environment: Mapping[str, str],
        pass_on: Iterable[str] = (),
        secrets: Path | None = None,
        bundles: Path | None = None,
    ) -> None:
        self._worker = worker
        self._environment = environment
        self._passed = PASSED.union(pass_on)
        self._secrets = secrets
        self._bundles = bundles
        self._attempts = scratch / "attempts"
        self._outputs = scratch / "outputs"
        # Nobody else has this folder, so what a former worker left here is nobody's.
        shutil.rmtree(self._attempts, ignore_errors=True)
        for folder in (self._attempts, self._outputs):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        known = sorted(self._outputs.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        self._kept = deque(known)

    def prepare(self, run: Run, item: Item) -> Prepared:
        """Everything this attempt needs, or `Unprepared`."""
        try:
            command = _DECODE(item.payload)
        except UNREADABLE as error:
            raise Unprepared(f"the payload is not a command: {error}") from None
        if not command.argv:
            raise Unprepared("the command names no program")
        env, secrets = self._environment_of(command, run, item)
        bundle = self._bundle_of(run)
        name = f"{quote(run.job_id, safe='')[:80]}-{item.index}-{item.attempt}-{item.lease_id}"
        folder, outputs = self._attempts / name, self._outputs / name
        try:
            cwd = self._make_folders(folder, outputs, command.cwd, bundle)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise Unprepared(f"its folder could not be made: {error}") from None
        if bundle is not None:
            env |= {
                b"HOLDFAST_BUNDLE": os.fsencode(bundle),
                b"HOLDFAST_TASK_DIR": os.fsencode(folder),
                # Others use the same folder.
                b"PYTHONDONTWRITEBYTECODE": b"1",
            }
        launch = Launch(
            lease_id=item.lease_id,
            argv=[os.fsencode(word) for word in command.argv],
            env=env,
            cwd=os.fsencode(cwd),
            outputs=os.fsencode(outputs),
            memory_bytes=run.memory_bytes,
            must_end=run.on_disconnect == STOP,
            is_service=run.kind == SERVICE,
        )
        return Prepared(launch, folder, command.argv[0], secrets)

    def _bundle_of(self, run: Run) -> Path | None:
        if not run.bundle:
            return None
        if self._bundles is None:
            raise Unprepared("this worker takes no bundles")
        return self._bundles / run.bundle

    def _make_folders(self, folder: Path, outputs: Path, cwd: str, bundle: Path | None) -> Path:
        folder.mkdir(mode=0o700)
        outputs.mkdir(mode=0o700, exist_ok=True)
        self._kept.append(outputs)
        while len(self._kept) > OUTPUTS_MAX:
            shutil.rmtree(self._kept.popleft(), ignore_errors=True)
        place = (folder if bundle is None else bundle) / cwd
        if bundle is None and not os.path.isabs(cwd):
            place.mkdir(parents=True, exist_ok=True)
        elif not place.is_dir():
            raise NotADirectoryError(f"there is no folder {cwd}")
        return place

    def _environment_of(
        self, command: Command, run: Run, item: Item
    ) -> tuple[dict[bytes, bytes], tuple[str, ...]]:
        values = {
            name: value
            for name, value in self._environment.items()
            if name in self._passed or name.startswith(PASSED_PREFIX)
        }
        secrets: list[str] = []
        for name, value in command.env.items():
            if not name or "=" in name or "\0" in name:
                raise Unprepared(f"{name!r} cannot be the name of a variable")
            if value.startswith(SECRET):
                value = self._secret(value.removeprefix(SECRET))
                secrets.append(value)
            values[name] = value
        values |= bearings(run, item, self._worker)
        env = {os.fsencode(name): os.fsencode(value) for name, value in values.items()}
        return env, tuple(secret for secret in secrets if secret)

    def _secret(self, name: str) -> str:
        known = self._environment.get(SECRET_VARIABLE + name)
        if known is not None:
            return known
        # A name with a slash in it would lead out of the folder.
        if self._secrets is not None and name and quote(name, safe="") == name.strip("."):
            with suppress(OSError, UnicodeDecodeError):
                return (self._secrets / name).read_text(encoding="utf-8").rstrip("\n")
        raise Unprepared(f"this worker does not know the secret {name!r}")


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The same text without the values of secrets, longest first: one may be part of another."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "[secret]")
    return text
