"""Which task the code belongs to that is running: told by its lane, or by its environment."""

import os
from typing import Final

from holdfast.worker.bearings import Ids
from holdfast.worker.context import Context, context_of
from holdfast.worker.errors import NotInTask
from holdfast.worker.seat import current_seat

OUTSIDE: Final = (
    "this is not part of a task: holdfast.current() is for code that a worker runs, so "
    "submit the function instead of calling it: hf.submit(f, ...). In a thread "
    "that the task has started, hand over what it gave you there."
)


def current() -> Context:
    """The task that the caller is part of; `NotInTask` outside any.

    In a function that a worker runs: everything a task may ask and promise. In a command, or in
    what a function has started without its context variables: who it is.
    """
    seat = current_seat()
    if seat is not None:
        return context_of(seat)
    try:
        return Context(Ids.of_environment(os.environ), None)
    except (KeyError, ValueError):
        raise NotInTask(OUTSIDE) from None
