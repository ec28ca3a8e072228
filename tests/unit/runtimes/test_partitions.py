"""One picture of the partitions from what several members say: never better than the worst."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.ids import NEVER, Instant
from holdfast.runtimes.observed import Partition
from holdfast.runtimes.partitions import (
    Claim,
    Member,
    View,
    followed,
    lasting_ms,
    merged,
    pictured,
)

NOW = Instant(100_000)
LASTS_MS = 15_000


def a_claim(name: str = "0", members: int = 3, ready: int = 3, leader: str = "a") -> Claim:
    return Claim(name, members, ready, leader)


def a_view(*claims: Claim, at: int = NOW, before: View | None = None) -> View:
    return followed(before, claims or (a_claim(),), at=Instant(at), lasts_ms=LASTS_MS)


def a_member(
    name: str = "1/0",
    view: View | None = None,
    *,
    ready: bool = True,
    since: int = 1,
    problem: str = "",
) -> Member:
    return Member(
        name=name, is_ready=ready, ready_since=Instant(since), view=view, problem=problem
    )


def drawn(*members: Member, now: int = NOW):
    return pictured(members, lasts_ms=LASTS_MS, now=Instant(now))


def test_what_is_told_counts_for_three_turns() -> None:
    assert lasting_ms(5_000) == 15_000
    view = a_view(at=NOW)
    for now, is_known in ((NOW, True), (NOW + LASTS_MS, True), (NOW + LASTS_MS + 1, False)):
        found = drawn(a_member(view=view), now=now)
        assert (found.partitions is not None) is is_known
    assert found.telling.doubt == "1/0: nothing was heard of its partitions of late"
    assert not found.telling.is_awaited


def test_the_worst_of_what_members_say_counts() -> None:
    views = (a_view(a_claim(members=3, ready=3)), a_view(a_claim(members=4, ready=2)))
    (partition,) = merged(views)
    assert (partition.members, partition.ready, partition.is_green) == (4, 2, False)


def test_members_who_name_different_leaders_name_none() -> None:
    for other in ("b", ""):
        views = (a_view(a_claim(leader="a")), a_view(a_claim(leader=other)))
        (partition,) = merged(views)
        assert (partition.leader, partition.leader_since) == ("", NEVER)


def test_each_tells_of_what_it_knows_and_numbers_are_in_their_order() -> None:
    views = (a_view(a_claim("10"), a_claim("2")), a_view(a_claim("2", ready=1), a_claim("north")))
    found = merged(views)
    assert [(each.name, each.ready) for each in found] == [("north", 3), ("2", 1), ("10", 3)]


def test_one_that_is_not_ready_does_not_count() -> None:
    red = a_view(a_claim(ready=0))
    found = drawn(a_member(view=a_view()), a_member("1/1", red, ready=False))
    assert found.partitions == (
        Partition(name="0", members=3, ready=3, leader="a", leader_since=NOW),
    )
    assert found.telling.doubt == ""
    assert drawn(a_member(view=red, ready=False)).telling.doubt == "no member is ready"


def test_who_should_tell_and_does_not_is_a_doubt_and_hides_nothing() -> None:
    silent = a_member("1/1", problem="http /partitions answered 404")
    found = drawn(a_member(view=a_view()), silent)
    assert found.partitions is not None
    assert found.telling.doubt == "1/1: http /partitions answered 404"
    alone = drawn(silent)
    assert (alone.partitions, alone.telling.is_awaited) == (None, False)


def test_who_has_only_just_come_is_waited_for() -> None:
    young = a_member("1/1", since=NOW - LASTS_MS)
    found = drawn(young)
    assert found.partitions is None
    assert (found.telling.is_awaited, found.telling.doubt) == (True, "1/1 has not told yet")
    assert found.telling.until == NOW
    assert not drawn(young, now=NOW + 1).telling.is_awaited
    beside = drawn(a_member(view=a_view()), young)
    assert (beside.telling.is_awaited, beside.telling.doubt) == (False, "1/1 has not told yet")


def test_when_some_of_it_grows_old_is_told() -> None:
    old, new = a_view(at=NOW - 5_000), a_view(at=NOW - 1_000)
    found = drawn(a_member(view=new), a_member("1/1", old))
    assert (found.telling.told_at, found.telling.until) == (old.at, old.until)


# --- leaders ------------------------------------------------------------------------------------


def test_a_leader_is_as_old_as_the_time_it_was_named_without_a_break() -> None:
    first = a_view(at=1_000)
    again = a_view(at=5_000, before=first)
    assert merged([again])[0].leader_since == 1_000
    other = a_view(a_claim(leader="b"), at=9_000, before=again)
    assert merged([other])[0].leader_since == 9_000
    back = a_view(at=12_000, before=other)
    assert merged([back])[0].leader_since == 12_000


def test_who_was_not_heard_for_a_while_names_a_new_leader() -> None:
    first = a_view(at=1_000)
    in_time = a_view(at=1_000 + LASTS_MS, before=first)
    late = a_view(at=1_001 + LASTS_MS, before=first)
    assert merged([in_time])[0].leader_since == 1_000
    assert merged([late])[0].leader_since == late.at


def test_a_member_that_joins_makes_no_leader_new_but_one_that_changed_its_mind_does() -> None:
    old = a_view(at=1_000)
    joined = a_view(at=9_000)
    assert merged([old, joined])[0].leader_since == 1_000
    turned = a_view(at=9_000, before=a_view(a_claim(leader="b"), at=8_000))
    assert merged([old, turned])[0].leader_since == 9_000


names = st.sampled_from("ab")
claims = st.builds(
    lambda name, members, missing, leader: Claim(name, members, max(0, members - missing), leader),
    st.sampled_from(["0", "1"]), st.integers(0, 4), st.integers(0, 4),
    st.sampled_from(["", "x", "y"]),
)  # fmt: skip
tellings = st.lists(claims, max_size=2, unique_by=lambda claim: claim.name).map(tuple)
views = st.builds(
    lambda told, at: followed(None, told, at=Instant(at), lasts_ms=LASTS_MS),
    tellings, st.integers(1, 1_000),
)  # fmt: skip


@pytest.mark.slow
@given(st.lists(views, max_size=4), views)
def test_another_view_never_makes_the_picture_better(known, another) -> None:
    before = {each.name: each for each in merged(known)}
    after = {each.name: each for each in merged([another, *known])}
    assert merged([another, *known]) == merged([*known, another])
    assert set(before) <= set(after)
    for name, partition in before.items():
        worse = after[name]
        assert worse.members >= partition.members
        assert worse.ready <= partition.ready
        assert worse.leader in ("", partition.leader)
        assert not worse.is_green or partition.is_green


@settings(max_examples=50)
@given(
    st.lists(st.tuples(names, st.integers(1, 20_000), st.sampled_from(["", "x", "y"])), max_size=20)
)
def test_since_a_leader_counts_nobody_who_counts_named_another(told) -> None:
    heard: dict[str, View] = {}
    said: dict[str, list[tuple[int, str]]] = {}
    now = 0
    for member, later_ms, leader in told:
        now += later_ms
        view = a_view(a_claim(leader=leader), at=now, before=heard.get(member))
        heard[member] = view
        said.setdefault(member, []).append((now, leader))
        found = drawn(*(a_member(name, view) for name, view in heard.items()), now=now)
        assert found.partitions is not None
        (partition,) = found.partitions
        if not partition.leader:
            continue
        for name, view in heard.items():
            if now <= view.until:
                since = partition.leader_since
                assert {named for at, named in said[name] if at >= since} <= {partition.leader}
