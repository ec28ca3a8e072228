"""The command line, in a process that dies at a named step when it is ordered to.

    python -m holdfast.testing.stepping serve ...
    python -m holdfast.testing.stepping worker start ...

See `holdfast.testing.steps`. What a server starts obeys orders too.
"""

import sys
from typing import Final

from holdfast.api import crew
from holdfast.cli.main import main as command_line
from holdfast.testing.steps import DOOM

ENTRY: Final = "holdfast.testing.stepping"
ROLES: Final = {"serve": "server", "start": "worker", "deliver": "delivery"}
SHORT_S: Final = 0.05


def main() -> None:
    words = sys.argv[1:]
    DOOM.enter(next(ROLES[word] for word in words if word in ROLES))
    delivery = (sys.executable, "-m", ENTRY, "worker", "deliver")
    (crew.Crew.__init__.__kwdefaults__ or {})["delivery"] = delivery
    # Whoever dies by order is needed again at once.
    vars(crew).update(FIRST_PAUSE_S=SHORT_S, LONGEST_PAUSE_S=SHORT_S)
    sys.exit(command_line(words))


if __name__ == "__main__":
    main()
