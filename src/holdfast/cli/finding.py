"""What a doctor finds: one thing that was looked at, how it is, and what to type about it."""

from typing import Final

from msgspec import Struct

from holdfast.cli.errors import REFUSED
from holdfast.cli.output import View

GOOD: Final = "GOOD"
POOR: Final = "POOR"
BAD: Final = "BAD"


class Finding(Struct, frozen=True):
    """`next` is the command to type where it is not good. `code` is how the shell is told, where
    it is bad and nothing else is."""

    name: str
    state: str
    told: str
    next: str = ""
    code: int = REFUSED

    def view(self) -> View:
        return {"name": self.name, "state": self.state, "told": self.told, "next": self.next}


def good(name: str, told: str) -> Finding:
    return Finding(name, GOOD, told)
