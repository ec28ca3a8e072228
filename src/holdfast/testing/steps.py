"""Every step between a task's body and DONE by name, and processes that die there when told to.

A process that has entered kills itself with SIGKILL when it reaches the step that an order names.
An order is a file; whoever takes it away carries it out, so each is carried out once, by a process
with the role it names. Without an order nothing happens.
"""

import importlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from holdfast.testing.step_table import STEPS, Step
from holdfast.worker import delivering_process, warm
from holdfast.worker.placing import place
from holdfast.worker.sinks.file import FileOutlet

ORDER_VARIABLE: Final = "HOLDFAST_TEST_ORDER"

FILE_STEPS: Final = {
    "looked": "the ledger is looked at",
    "written": "the line is written",
    "synced": "the line is synced",
}
PLACING_STEPS: Final = {
    "receipt": "the receipt is made",
    "linked": "the new file is linked",
    "renamed": "the file is renamed",
    "synced": "the rename is synced",
}
"""Steps that sinks name themselves."""


class Order(Struct, frozen=True):
    """Who is to die where, when it comes there first."""

    number: int
    role: str
    step: str

    def give(self, file: Path) -> None:
        """Appears whole."""
        new = file.with_suffix(".new")
        new.write_text(f"{self.number}\n{self.role}\n{self.step}", encoding="utf-8")
        new.rename(file)


def was_obeyed(file: Path, order: Order) -> bool:
    return _obeyed(file, order.number).exists()


def _obeyed(file: Path, number: int) -> Path:
    return file.with_suffix(f".{number}")


class Doom:
    """What this process knows of orders."""

    def __init__(self) -> None:
        self.role = ""
        self._is_armed = False

    def enter(self, role: str) -> None:
        """From here on, this process obeys orders for its role; so do those it starts."""
        self.role = role
        if self._is_armed:
            return
        self._is_armed = True
        vars(warm)["BOOT"] = _boot("task", "holdfast.worker.child")
        vars(delivering_process)["BOOT"] = _boot("courier", "holdfast.worker.delivery_child")
        places: dict[str, list[Step]] = {}
        for step in STEPS:
            if step.place:
                places.setdefault(step.place, []).append(step)
        for where, steps in places.items():
            _wrap(where, steps, self.reach)
        defaults = FileOutlet.__init__.__defaults__ or ()
        FileOutlet.__init__.__defaults__ = (*defaults[:-1], self._named_by(FILE_STEPS))
        place.__kwdefaults__ = {"reached": self._named_by(PLACING_STEPS)}

    def _named_by(self, steps: dict[str, str]) -> Callable[[str], None]:
        return lambda step: self.reach(steps[step])

    def reach(self, step: str) -> None:
        """This process is at that step, and may end here."""
        file = os.environ.get(ORDER_VARIABLE, "")
        try:
            with open(file, encoding="utf-8") as told:
                number, role, wanted = told.read().split("\n")
        except FileNotFoundError:
            return
        if (role, wanted) != (self.role, step):
            return
        try:
            os.rename(file, _obeyed(Path(file), int(number)))
        except FileNotFoundError:
            return
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()


DOOM: Final = Doom()


def _boot(role: str, module: str) -> str:
    """What an exec'd child runs: as it always does, with its orders before it."""
    return (
        "import sys; sys.path[:] = sys.argv.pop().split('\\n'); "
        f"from holdfast.testing.steps import DOOM; DOOM.enter({role!r}); "
        f"from {module} import main; main()"
    )


def _wrap(where: str, steps: list[Step], reach: Callable[[str], None]) -> None:
    module, _, path = where.partition(":")
    owner: Any = importlib.import_module(module)
    *parts, name = path.split(".")
    for part in parts:
        owner = getattr(owner, part)
    plain = getattr(owner, name)
    before = [step for step in steps if step.side == "before"]
    after = [step for step in steps if step.side == "after"]

    def passing(*args: Any, **words: Any) -> Any:
        for step in before:
            if step.when is None or step.when(args, None):
                reach(step.name)
        result = plain(*args, **words)
        for step in after:
            if step.when is None or step.when(args, result):
                reach(step.name)
        return result

    setattr(owner, name, passing)
