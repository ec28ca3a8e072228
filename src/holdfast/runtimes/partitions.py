"""What the members of a data grid tell of its partitions, made into one picture.

Members see the same partition differently, and what they told grows old. So the picture is the
worst of what they say: the most members, the fewest of them ready, and a leader only where all who
tell of the partition name the same. Only a member that is ready counts, and only what it told of
late. A member that should tell and does not leaves the picture as the others draw it, with a
doubt: enough to be asked for work by, too little to change the grid's size by.

A leader is as old as the time for which it has been named without a break. Nothing of this is
recorded: whoever begins to listen has heard of every leader just now.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from holdfast.core.ids import NEVER, Instant
from holdfast.runtimes.observed import Partition, Telling

GOOD_TURNS: Final = 3
"""So many times a member may miss telling before what it told counts no more."""

NOT_YET: Final = "has not told yet"


class Claim(Struct, frozen=True, gc=False):
    """What one member says of one partition. An empty `leader`: none."""

    name: str
    members: int
    ready: int
    leader: str = ""


class Tenure(Struct, frozen=True, gc=False):
    """Since when a member has named the same leader; `has_changed`: it named another before, or
    was not heard for a while."""

    leader: str
    since: Instant
    has_changed: bool


class View(Struct, frozen=True):
    """What one member told last, as of `at`; it counts for `lasts_ms`. `tenures` are those of the
    leaders it names, by partition."""

    claims: tuple[Claim, ...]
    at: Instant
    lasts_ms: int
    tenures: Mapping[str, Tenure]

    @property
    def until(self) -> Instant:
        return Instant(self.at + self.lasts_ms)


class Member(Struct, frozen=True, kw_only=True):
    """A replica of the data grid. `ready_since` is since when it has been seen to be ready; `view`
    is None where it told nothing yet that could be read. `problem` is what came instead of an
    answer since."""

    name: str
    is_ready: bool
    ready_since: Instant
    view: View | None = None
    problem: str = ""


class Picture(Struct, frozen=True):
    """All of them together; None where nobody tells."""

    partitions: tuple[Partition, ...] | None
    telling: Telling


def lasting_ms(turn_ms: int) -> int:
    """For how long it counts what is told once a turn."""
    return GOOD_TURNS * turn_ms


def followed(
    before: View | None, claims: tuple[Claim, ...], *, at: Instant, lasts_ms: int
) -> View:
    """What a member tells now, after what it told before."""
    known: Mapping[str, Tenure] = {} if before is None else before.tenures
    is_late = before is not None and at > before.until
    tenures: dict[str, Tenure] = {}
    for claim in claims:
        tenure = known.get(claim.name)
        if tenure is None or is_late or tenure.leader != claim.leader:
            tenure = Tenure(claim.leader, at, before is not None)
        tenures[claim.name] = tenure
    return View(claims, at, lasts_ms, tenures)


def pictured(members: Iterable[Member], *, lasts_ms: int, now: Instant) -> Picture:
    """What they tell together. `lasts_ms` is how long a member that is ready may take to tell
    anything at all."""
    views: list[View] = []
    silent: list[str] = []
    awaited: list[str] = []
    dues: list[Instant] = []
    for member in members:
        view = member.view
        if not member.is_ready:
            continue
        if view is not None and now <= view.until:
            views.append(view)
            dues.append(view.until)
        elif now <= member.ready_since + lasts_ms:
            awaited.append(f"{member.name} {NOT_YET}")
            dues.append(Instant(member.ready_since + lasts_ms))
        else:
            silent.append(f"{member.name}: {_why(member)}")
    doubts = silent + awaited
    telling = Telling(
        doubt=doubts[0] if doubts else "" if views else "no member is ready",
        is_awaited=not views and bool(awaited),
        told_at=min((view.at for view in views), default=NEVER),
        until=min(dues, default=NEVER),
    )
    return Picture(merged(views) if views else None, telling)


def merged(views: Iterable[View]) -> tuple[Partition, ...]:
    """The worst of what these say, by partition."""
    told: dict[str, list[tuple[Claim, Tenure]]] = {}
    for view in views:
        for claim in view.claims:
            told.setdefault(claim.name, []).append((claim, view.tenures[claim.name]))
    return tuple(_worst(name, said) for name, said in sorted(told.items(), key=_by_number))


def _worst(name: str, said: list[tuple[Claim, Tenure]]) -> Partition:
    first = said[0][0].leader
    is_agreed = all(claim.leader == first for claim, _ in said)
    # One that only came to tell names an old leader; one that named another names a new one.
    since = min(tenure.since for _, tenure in said)
    changes = [tenure.since for _, tenure in said if tenure.has_changed]
    return Partition(
        name=name,
        members=max(claim.members for claim, _ in said),
        ready=min(claim.ready for claim, _ in said),
        leader=first if is_agreed else "",
        leader_since=max([since, *changes]) if is_agreed and first else NEVER,
    )


def _why(member: Member) -> str:
    return member.problem or "nothing was heard of its partitions of late"


def _by_number(told: tuple[str, object]) -> tuple[int, str]:
    """Numbers as numbers, so that partition 10 does not come before partition 2."""
    name = told[0]
    return (int(name), "") if name.isascii() and name.isdigit() else (-1, name)
