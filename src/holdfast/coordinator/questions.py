"""Errands that read a folder: a question in SQL, all tables in a file, what changed in between."""

from pathlib import Path

from msgspec import Struct

from holdfast.coordinator.differing import difference
from holdfast.coordinator.inspect import Moment, Unreachable, open_folder
from holdfast.coordinator.querying import CannotAnswer, Question, Rows, ask_folder, export
from holdfast.coordinator.views import View


class Asked(Struct, frozen=True, tag="ask"):
    folder: str
    moment: Moment
    question: Question


class Compared(Struct, frozen=True, tag="compare"):
    folder: str
    before: Moment
    after: Moment


class Exported(Struct, frozen=True, tag="export"):
    """`target` is a file that is not there yet."""

    folder: str
    moment: Moment
    target: str


class No(Struct, frozen=True):
    """It cannot be answered, and that is the asker's to mend."""

    code: str
    why: str


class Replied(Struct, frozen=True):
    """One of the three, or none of them once everything was exported."""

    rows: Rows | None = None
    changes: View | None = None
    no: No | None = None


def reply_to(errand: Asked | Compared | Exported) -> Replied:
    folder = Path(errand.folder)
    try:
        if isinstance(errand, Asked):
            return Replied(rows=ask_folder(folder, errand.moment, errand.question))
        if isinstance(errand, Exported):
            export(open_folder(folder, errand.moment), Path(errand.target))
            return Replied()
        before, after = (open_folder(folder, each) for each in (errand.before, errand.after))
        return Replied(changes=difference(before, after))
    except CannotAnswer as error:
        return Replied(no=No("invalid", str(error)))
    except Unreachable as error:
        return Replied(no=No("gone", str(error)))
