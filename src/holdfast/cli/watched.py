"""`--watch`: a list that is shown again as it changes."""

import time
from collections.abc import Callable
from typing import Final

from holdfast.cli.output import View, emit, emit_line, emit_yaml, is_terminal, name_of

PAUSE_S: Final = 1.0
CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"

Look = Callable[[], list[View]]
Draw = Callable[[list[View]], str]


def watched(form: str, look: Look, drawn: Draw, *, rounds: int = 0) -> None:
    """Show what `look` finds until the user has seen enough.

    A terminal is painted anew; programs get a line for whatever is new or has changed, people in a
    pipe the whole table when anything has. `rounds` zero: for ever.
    """
    known: dict[object, View] = {}
    shown = ""
    left = rounds
    while True:
        views = look()
        if form in ("json", "jsonl"):
            for view in views:
                if known.get(name_of(view)) != view:
                    emit_line(view)
        elif form == "yaml":
            for view in views:
                if known.get(name_of(view)) != view:
                    emit("---\n")
                    emit_yaml(view)
        elif form == "name":
            emit("".join(f"{name}\n" for view in views if (name := name_of(view)) not in known))
        elif form != "quiet":
            table = drawn(views)
            if is_terminal():
                emit(CLEAR + table)
            elif table != shown:
                emit(f"\n{table}" if shown else table)
            shown = table
        known = {name_of(view): view for view in views}
        left -= 1
        if not left:
            return
        time.sleep(PAUSE_S)
