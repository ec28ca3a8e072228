"""What commits owe, by place and in the order it was promised. An index: rebuilt, never written.

Entries with a key stand in the line of their key, in the order of their commits, and only the
first of a line can be delivered: while it backs off or is parked, those behind it wait. Entries
without a key promise no order and are each on their own. Blocks are delivered by nobody: they are
found by who runs them.
"""

from bisect import bisect
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from msgspec import Struct

from holdfast.core.ids import NEVER, Index, Instant, JobId, Position, WorkerId
from holdfast.core.owed import BLOCK, Debt, DebtName
from holdfast.core.task import Task

PLAYED_OUT = 64
"""So many settled entries at the front of a line are dropped together."""

Order = tuple[Position, JobId, Index, int]


class Owing(Struct, gc=False, eq=False):
    """A debt and whose it is. `is_asleep`: its next try has a time that has not come. `is_away`:
    somebody has it in hand; only whoever deals it out knows who, and may forget."""

    name: DebtName
    position: Position
    debt: Debt
    is_asleep: bool = False
    is_away: bool = False

    @property
    def order(self) -> Order:
        """Before whom it comes: by commits, and by name among those of one record."""
        name = self.name
        return (self.position, name.job_id, name.index, name.number)


class Line:
    """The entries of one key. Whoever comes last belongs at the end, nearly always."""

    __slots__ = ("_entries", "_first")

    def __init__(self) -> None:
        self._entries: list[Owing] = []
        self._first = 0

    def add(self, owing: Owing) -> Owing | None:
        """Who is first no more, where the newcomer stepped in before everybody: entries of one
        record come in any order."""
        entries = self._entries
        if len(entries) == self._first or entries[-1].order < owing.order:
            entries.append(owing)
            return None
        at = bisect(entries, owing.order, lo=self._first, key=_order)
        entries.insert(at, owing)
        return entries[at + 1] if at == self._first else None

    def drop(self, owing: Owing) -> None:
        entries = self._entries
        if entries[self._first] is owing:
            self._first += 1
            if self._first >= PLAYED_OUT and self._first * 2 >= len(entries):
                del entries[: self._first]
                self._first = 0
            return
        del entries[next(i for i in range(self._first, len(entries)) if entries[i] is owing)]

    def head(self) -> Owing:
        return self._entries[self._first]

    def __iter__(self) -> Iterator[Owing]:
        for at in range(self._first, len(self._entries)):
            yield self._entries[at]

    def __len__(self) -> int:
        return len(self._entries) - self._first


def _order(owing: Owing) -> Order:
    return owing.order


class Place:
    """A sink, or a file system: what it is owed. `ready` can be delivered now, oldest first;
    `asleep` wakes; `parked` counts those that wait for an operator."""

    __slots__ = ("asleep", "kind", "lines", "name", "owed", "parked", "ready")

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        self.owed = 0
        self.parked = 0
        self.lines: dict[str, Line] = {}
        self.ready: OrderedDict[DebtName, Owing] = OrderedDict()
        self.asleep: list[tuple[Instant, Order, Owing]] = []

    def add(self, owing: Owing) -> None:
        self.owed += 1
        self.parked += owing.debt.parked
        if owing.debt.key:
            displaced = self.lines.setdefault(owing.debt.key, Line()).add(owing)
            if displaced is not None:
                self.present(displaced)
        if owing.debt.not_before != NEVER:
            self.put_to_sleep(owing)
        self.present(owing)

    def drop(self, owing: Owing) -> None:
        """It is owed no more; whoever stood behind it is next."""
        self.owed -= 1
        self.parked -= owing.debt.parked
        self.ready.pop(owing.name, None)
        key = owing.debt.key
        if key:
            line = self.lines[key]
            line.drop(owing)
            if len(line):
                self.present(line.head())
            else:
                del self.lines[key]

    def put_to_sleep(self, owing: Owing) -> None:
        owing.is_asleep = True
        heappush(self.asleep, (owing.debt.not_before, owing.order, owing))

    def present(self, owing: Owing) -> None:
        """Put it among those that can be delivered, or take it out, as it now is."""
        if self.is_deliverable(owing):
            self.ready.setdefault(owing.name, owing)
        else:
            self.ready.pop(owing.name, None)

    def is_deliverable(self, owing: Owing) -> bool:
        if owing.is_asleep or owing.is_away or owing.debt.parked or self.kind == BLOCK:
            return False
        key = owing.debt.key
        return not key or self.lines[key].head() is owing

    def behind(self, owing: Owing) -> Iterator[Owing]:
        """Those that may follow it at once, in the same hands: up to the first that waits."""
        if not owing.debt.key:
            return
        found = iter(self.lines[owing.debt.key])
        for other in found:
            if other is owing:
                break
        for other in found:
            if other.is_asleep or other.is_away or other.debt.parked:
                return
            yield other


class Debts:
    """Everything that is owed, found by name, by place, and blocks by who runs them."""

    def __init__(self) -> None:
        self.places: dict[tuple[str, str], Place] = {}
        self.blocks: dict[tuple[WorkerId, int], dict[DebtName, Owing]] = {}
        self._known: dict[DebtName, Owing] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Owing]:
        return iter(self._known.values())

    def __reversed__(self) -> Iterator[Owing]:
        """The newest first, of what came since this was built."""
        return reversed(self._known.values())

    @property
    def parked(self) -> int:
        return sum(place.parked for place in self.places.values())

    def find(self, name: DebtName) -> Owing | None:
        return self._known.get(name)

    def place_of(self, owing: Owing) -> Place:
        return self.places[(owing.debt.kind, owing.debt.place)]

    def add(self, task: Task) -> None:
        """A task has committed: whatever it owes takes its place."""
        for debt in task.owed:
            owing = Owing(DebtName(task.job_id, task.index, debt.number), task.committed, debt)
            self._known[owing.name] = owing
            where = (debt.kind, debt.place)
            place = self.places.get(where)
            if place is None:
                place = self.places[where] = Place(*where)
            place.add(owing)
            if debt.kind == BLOCK and not debt.parked and task.author is not None:
                author = (task.author.worker, task.author.incarnation)
                self.blocks.setdefault(author, {})[owing.name] = owing

    def settle(self, owing: Owing, task: Task) -> None:
        """It is owed no more. The task's own list is its fold's affair."""
        del self._known[owing.name]
        place = self.place_of(owing)
        place.drop(owing)
        self._forget_block(owing, task)
        if not place.owed:
            del self.places[(place.kind, place.name)]

    def fail(self, owing: Owing, tries: int, not_before: Instant, error: str) -> None:
        debt, place = owing.debt, self.place_of(owing)
        debt.tries, debt.not_before, debt.error = tries, not_before, error
        place.put_to_sleep(owing)
        place.present(owing)

    def park(self, owing: Owing, task: Task, tries: int, error: str) -> None:
        debt, place = owing.debt, self.place_of(owing)
        debt.tries, debt.not_before, debt.error, debt.parked = tries, NEVER, error, True
        owing.is_asleep = False
        place.parked += 1
        place.present(owing)
        self._forget_block(owing, task)

    def retry(self, owing: Owing) -> None:
        """As if it had never been tried; what went wrong before is still told."""
        debt, place = owing.debt, self.place_of(owing)
        place.parked -= debt.parked
        debt.tries, debt.not_before, debt.parked = 0, NEVER, False
        owing.is_asleep = False
        place.present(owing)

    def wake(self, now: Instant) -> None:
        """Those whose next try has come can be delivered."""
        for place in self.places.values():
            while place.asleep and place.asleep[0][0] <= now:
                at, _, owing = heappop(place.asleep)
                # Whoever was settled or sent on meanwhile left its alarm behind.
                if owing.is_asleep and owing.debt.not_before == at and self._is_known(owing):
                    owing.is_asleep = False
                    place.present(owing)

    def next_wake(self) -> Instant:
        """When the first of those asleep can be tried again, at the earliest; NEVER for none."""
        return min((p.asleep[0][0] for p in self.places.values() if p.asleep), default=NEVER)

    def take(self, owing: Owing) -> None:
        """Somebody has it in hand: nobody else is given it."""
        owing.is_away = True
        self.place_of(owing).ready.pop(owing.name, None)

    def put_back(self, names: Iterable[DebtName]) -> None:
        """Nobody has these in hand any more. First come those that waited longest."""
        for name in names:
            owing = self._known.get(name)
            if owing is not None and owing.is_away:
                owing.is_away = False
                place = self.place_of(owing)
                place.present(owing)
                if owing.name in place.ready:
                    place.ready.move_to_end(owing.name, last=False)

    def _is_known(self, owing: Owing) -> bool:
        return self._known.get(owing.name) is owing

    def _forget_block(self, owing: Owing, task: Task) -> None:
        if owing.debt.kind != BLOCK or task.author is None:
            return
        author = (task.author.worker, task.author.incarnation)
        names = self.blocks.get(author)
        if names is not None:
            names.pop(owing.name, None)
            if not names:
                del self.blocks[author]
