"""Where commands that look at class runtimes get what they show: a server, or a folder."""

from collections.abc import Mapping
from typing import Protocol

from holdfast.cli.errors import NOT_FOUND, Trouble
from holdfast.cli.output import View


class Runtimes(Protocol):
    """Class runtimes, wherever they are declared."""

    def all(self, labels: Mapping[str, str]) -> list[View]:
        """Every one of them that has these labels, by name."""
        ...

    def one(self, name: str) -> View | None:
        """The one of this name; None where there is none."""
        ...

    def events(self, name: str) -> list[View]:
        """What was told about it, the latest last."""
        ...


def no_runtime(name: str, place: str, options: str) -> Trouble:
    return Trouble(
        f"there is no runtime {name} {place}. `holdfast runtime list{options}` lists what there "
        "is.",
        NOT_FOUND,
    )
