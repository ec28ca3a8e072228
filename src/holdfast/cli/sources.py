"""Where commands that look get what they show: a folder of the log, or a server. One shape for
both, so that everything is drawn from the same views by the same code."""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from msgspec import Struct

from holdfast.cli.errors import NOT_FOUND, USAGE, Trouble
from holdfast.cli.output import View, note
from holdfast.cli.runtime_sources import Runtimes
from holdfast.cli.shelves import Shelf
from holdfast.cli.wards import Ward
from holdfast.core.ids import effect_name
from holdfast.core.owed import DebtName
from holdfast.wire.wanted import Wanted, WantedEffects
from holdfast.wire.wanted_entries import WantedEntries

LAST: Final = "last"
SHOWN: Final = 5


class Found(Struct, frozen=True):
    """A list, or its beginning. `total` is unknown where there is more than was asked for and
    nobody counts it."""

    views: list[View]
    total: int | None

    def tell(self, what: str) -> None:
        """Say so where it is only the beginning."""
        shown = len(self.views)
        if self.total is None:
            note(f"the first {shown} {what}; --limit 0 shows all")
        elif shown < self.total:
            note(f"{shown} of {self.total:,} {what}; --limit 0 shows all")


class AuditSource(Protocol):
    def entries(self, wanted: WantedEntries, limit: int) -> list[View]:
        """The newest lines, the newest last; limit zero is none."""
        ...

    def head(self) -> View:
        """How far the log is durable, and the head of its chain there."""
        ...

    def export(self, first: int, last: int) -> Iterator[bytes]:
        """The trail as a file, line by line; zero is from the beginning, or to the end."""
        ...


class Source(Protocol):
    """`place` is how a sentence names it; `options` leads a command back to it, with a space
    before it. `limit` zero is none."""

    @property
    def place(self) -> str: ...

    @property
    def options(self) -> str: ...

    def now(self) -> int:
        """When what it shows is the case, on the wall clock: ages end there."""
        ...

    def refresh(self) -> None:
        """Show what is the case now, not what was the case when it was asked first."""
        ...

    def jobs(self, wanted: Wanted, limit: int = 0) -> Found:
        """Jobs at a glance, newest first."""
        ...

    def why_empty(self) -> str:
        """What to say where no job is found."""
        ...

    def job(self, text: str) -> View:
        """The one job meant by an id, the beginning of one, or `last`."""
        ...

    def await_end(self, job: View, wait_s: float) -> View:
        """The job when it has ended, or when so much time has passed."""
        ...

    def shelf(self, *, follows: bool) -> Shelf:
        """Where the output of its tasks is read. `follows`: more is waited for."""
        ...

    def tasks(
        self, job: View, indices: Sequence[int], states: frozenset[str], limit: int = 0
    ) -> Found:
        """Tasks of a job at a glance; no states: those in any."""
        ...

    def task(self, job: View, index: int) -> View:
        """One task with its attempts."""
        ...

    def effects(self, wanted: WantedEffects, limit: int = 0) -> Found:
        """What commits owe, in the order of the commits."""
        ...

    def effect(self, name: DebtName) -> View:
        """One of it with its body and its tries, also where it is owed no more."""
        ...

    @property
    def ward(self) -> Ward:
        """What is in quarantine."""
        ...

    def history(self, job: View, index: int) -> View:
        """Every transaction that touched a task, the oldest first, and whether that is all."""
        ...

    def explain_job(self, job: View, level: int = 1) -> View:
        """Why a job is where it is, in so much detail."""
        ...

    def explain_task(self, job: View, index: int, level: int = 1) -> View:
        """Why a task is where it is."""
        ...

    def limits(self) -> list[View]:
        """Every limit, with how much of it is in use."""
        ...

    def circuits(self) -> list[View]:
        """Every circuit that something is held against."""
        ...

    def workers(self) -> list[View]:
        """The workers that are there, and those that hold something."""
        ...

    def worker(self, name: str) -> View:
        """One of them with its leases."""
        ...

    def queues(self) -> list[View]:
        """The queues that are paused or have something waiting."""
        ...

    def tokens(self) -> list[View]:
        """Who may ask for what."""
        ...

    def operations(self) -> list[View]:
        """What was done to many at once, newest first."""
        ...

    def operation(self, name: str) -> View:
        """One of those."""
        ...

    def stalls(self, patience_ms: int) -> list[View]:
        """What hangs, the oldest first; of a folder, what does for so long."""
        ...

    def summary(self) -> View:
        """How many tasks wait for which reason."""
        ...

    def schedules(self, namespace: str) -> list[View]:
        """Schedules at a glance, by name."""
        ...

    def schedule(self, name: str) -> View:
        """One schedule with what it runs."""
        ...

    def coming(self, name: str, count: int) -> list[str]:
        """The next instants of a schedule."""
        ...

    @property
    def runtimes(self) -> Runtimes:
        """Class runtimes."""
        ...

    @property
    def audit(self) -> AuditSource:
        """The audit trail."""
        ...

    def transactions(self, limit: int) -> list[View]:
        """The newest transactions, the newest last."""
        ...


def ambiguous(text: str, names: Sequence[str]) -> Trouble:
    """The beginning of several jobs names none of them."""
    shown = ", ".join(names[:SHOWN])
    more = ", …" if len(names) > SHOWN else ""
    return Trouble(
        f"{text} is the beginning of {len(names)} jobs: {shown}{more}. Write more of it.", USAGE
    )


def no_schedule(name: str, source: Source) -> Trouble:
    return Trouble(
        f"there is no schedule {name} {source.place}. "
        f"`holdfast schedule list{source.options}` lists what there is.",
        NOT_FOUND,
    )


def no_worker(name: str, source: Source) -> Trouble:
    return Trouble(
        f"no worker {name} has been heard of {source.place}. "
        f"`holdfast worker list{source.options}` lists those there are.",
        NOT_FOUND,
    )


def no_operation(name: str, source: Source) -> Trouble:
    return Trouble(
        f"there is no operation {name} {source.place}, or not any more. "
        f"`holdfast operation list{source.options}` lists what there is.",
        NOT_FOUND,
    )


def no_effect(name: DebtName, source: Source) -> Trouble:
    called = effect_name(name.job_id, name.index, name.number)
    return Trouble(
        f"no commit {source.place} owes or owed {called}. "
        f"`holdfast effect list{source.options}` lists what is owed.",
        NOT_FOUND,
    )
