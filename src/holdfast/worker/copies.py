"""A task may fork, and then two processes come back from it.

Only the first of them is the lane. A copy that went on would run the tasks that wait behind, and
would speak for the lane on the same socket and slate. So it ends where its task ends.
"""

import os
import sys
import weakref
from contextlib import suppress
from typing import NoReturn

from holdfast.worker.troubles import Trouble


class Original:
    """Tells the process a lane was made in from the copies that its tasks make of it."""

    def __init__(self) -> None:
        self.is_copy = False
        here = weakref.ref(self)

        def forked() -> None:
            found = here()
            if found is not None:
                found.is_copy = True

        os.register_at_fork(after_in_child=forked)


def end_copy(trouble: Trouble | None) -> NoReturn:
    """Leave as a program would that ends here: its words go out, and its exit code stands."""
    with suppress(Exception):
        if trouble is not None and trouble.exit_code is None:
            sys.stderr.write(trouble.traceback)
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(_exit_code(trouble))


def _exit_code(trouble: Trouble | None) -> int:
    if trouble is None:
        return 0
    return 1 if trouble.exit_code is None else trouble.exit_code & 0xFF
