"""Replicas of a service in turn: all of them, without those that failed, as they come and go."""

from collections import Counter

import pytest

from holdfast.client.balancing import RoundRobin
from holdfast.client.errors import NoEndpoint, Unreachable


class Town:
    """Who is there, and a clock."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = list(addresses)
        self.now = 0.0
        self.looks = 0
        self.is_away = False
        self.turn = RoundRobin(
            self.look, "greeter/hello", refresh_s=5, rest_s=10, clock=lambda: self.now
        )

    def look(self) -> list[str]:
        self.looks += 1
        if self.is_away:
            raise Unreachable("http://x", "refused")
        return self.addresses


def test_every_replica_is_asked_alike_and_looked_up_now_and_then():
    town = Town("a", "b", "c")
    assert Counter(town.turn.next() for _ in range(9)) == {"a": 3, "b": 3, "c": 3}
    assert town.looks == 1
    town.addresses = ["b", "d"]
    town.now = 5
    assert {town.turn.next() for _ in range(4)} == {"b", "d"}
    assert town.looks == 2


def test_one_that_failed_is_left_out_for_a_while():
    town = Town("a", "b")
    town.turn.failed("a")
    assert {town.turn.next() for _ in range(4)} == {"b"}
    town.now = 10
    assert {town.turn.next() for _ in range(4)} == {"a", "b"}


def test_where_all_failed_they_are_looked_up_at_once_and_the_known_ones_are_better_than_none():
    town = Town("a")
    assert town.turn.next() == "a"
    town.turn.failed("a")
    assert town.turn.next() == "a"
    assert town.looks == 2
    town.addresses = ["b"]
    town.turn.failed("a")
    assert town.turn.next() == "b"


def test_nobody_there_is_said_and_a_coordinator_that_is_away_is_borne_with():
    town = Town()
    with pytest.raises(NoEndpoint, match="greeter/hello"):
        town.turn.next()
    town.addresses = ["a"]
    assert town.turn.next() == "a"
    town.is_away, town.now = True, 100
    assert town.turn.next() == "a"
    nowhere = Town()
    nowhere.is_away = True
    with pytest.raises(Unreachable):
        nowhere.turn.next()


def test_a_call_goes_to_the_next_where_one_cannot_be_reached():
    town = Town("a", "b", "c")
    asked = []

    def ask(address: str) -> str:
        asked.append(address)
        if address != "c":
            raise ConnectionRefusedError(address)
        return "hello"

    assert town.turn.call(ask) == "hello"
    assert asked[-1] == "c"
    assert len(set(asked)) == len(asked) <= 3
    assert not set(asked[:-1]) & set(town.turn.addresses)
    town.addresses = ["a", "b"]
    town.now = 20
    with pytest.raises(ConnectionRefusedError):
        town.turn.call(ask)
