"""Which bytes of a lane's output belong to which of its tasks, as its child sees it.

It looks at the ends of both outputs whenever a task is over, and tells them with the outcome where
they have moved: a task that prints nothing costs two looks and no message.
"""

import os
import sys

Ends = tuple[int, int]


class Prints:
    """Where both outputs of this process stood when it last looked."""

    def __init__(self) -> None:
        self.ends: Ends = (0, 0)
        self.since()

    def since(self) -> Ends | None:
        """Where both outputs end now, None where they have not moved since the last look."""
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except Exception:  # noqa: BLE001, S110 - a task may have put anything in their place
            pass
        try:
            out, err = os.lseek(1, 0, os.SEEK_END), os.lseek(2, 0, os.SEEK_END)
        except OSError:
            # It has closed them, or put a pipe there: nothing is known of what it prints.
            return None
        # A look costs every task, so nothing is made before something has moved.
        if out == self.ends[0] and err == self.ends[1]:
            return None
        self.ends = (out, err)
        return self.ends
