"""Tasks that wait at a gate, and then owe one line in a ledger: whoever holds many of them at once
can be stopped in the middle of all."""

import os
import time
from pathlib import Path
from typing import Final

import holdfast
from holdfast.testing.deeds import append

LEDGER: Final = "ledger"
LOOK_S: Final = 0.01
FOR_EVER_S: Final = 120.0


def pass_and_pay(item: tuple[str, int]) -> int:
    """Say that we are here, wait until the gate is open, and owe what is to be paid once."""
    folder, number = item
    context = holdfast.current()
    append(os.path.join(folder, "here"), f"{number}")
    give_up_at = time.monotonic() + FOR_EVER_S
    while not Path(folder, "open").exists():
        if time.monotonic() > give_up_at:
            raise TimeoutError("the gate stayed shut")
        time.sleep(LOOK_S)
    context.effect(LEDGER, key=str(number), body={"n": number, "token": context.token})
    return context.token


def are_here(folder: Path) -> int:
    """How many different tasks have come to the gate."""
    here = folder / "here"
    return len(set(here.read_text(encoding="utf-8").split())) if here.exists() else 0
