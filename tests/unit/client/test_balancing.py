"""Replicas of a service in turn: all of them, without those that failed, as they come and go."""

import gc
import socket
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue

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


def test_a_call_looks_again_where_all_that_were_known_are_gone():
    town = Town("a")
    assert town.turn.next() == "a"
    town.addresses = ["b"]
    asked = []

    def ask(address: str) -> str:
        asked.append(address)
        if address == "a":
            raise ConnectionRefusedError(address)
        return "hello"

    assert town.turn.call(ask) == "hello"
    assert asked == ["a", "b"]


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    """Where one request is answered with three bytes, or as many of them as there are."""
    with socket.create_server(("127.0.0.1", 0)) as door:

        def answer() -> None:
            caller, _ = door.accept()
            with caller:
                caller.recv(65_536)
                caller.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n" + body)

        threading.Thread(target=answer, daemon=True).start()
        yield f"127.0.0.1:{door.getsockname()[1]}"


def test_a_call_goes_to_the_next_where_an_answer_breaks_off():
    """A replica that ends while it answers says how long the answer is, and then no more."""
    with answering(b"") as broken, answering(b"old") as whole:
        town = Town(whole, broken)
        asked = []

        def ask(address: str) -> bytes:
            asked.append(address)
            with urllib.request.urlopen(f"http://{address}/", timeout=60) as answer:
                return bytes(answer.read())

        assert town.turn.call(ask) == b"old"
        assert asked == [broken, whole]
        assert town.turn.addresses == (whole,)


class Wire:
    """Says when somebody should look again, or that it cannot."""

    def __init__(self) -> None:
        self.said: Queue[bool | Exception] = Queue()
        self.asked = threading.Semaphore(0)

    def changed(self) -> bool:
        self.asked.release()
        told = self.said.get(timeout=60)
        if isinstance(told, Exception):
            raise told
        return told


def test_a_change_is_heard_without_waiting_for_the_next_look():
    wire, addresses = Wire(), ["a"]
    ring = RoundRobin(lambda: addresses, refresh_s=5, clock=lambda: 0.0, changed=wire.changed)
    assert ring.addresses == ("a",)
    assert wire.asked.acquire(timeout=60)
    addresses[:] = ["b", "c"]
    assert ring.addresses == ("a",)
    wire.said.put(True)
    # It waits for the next one when it has looked.
    assert wire.asked.acquire(timeout=60)
    assert ring.addresses == ("b", "c")
    wire.said.put(False)


def test_while_nobody_can_say_what_changes_it_is_looked_up_as_before(monkeypatch):
    monkeypatch.setattr("holdfast.client.balancing.PAUSES_S", (0.0, 0.0))
    wire, addresses, now = Wire(), ["a"], [0.0]
    ring = RoundRobin(lambda: list(addresses), refresh_s=5, clock=lambda: now[0],
                      changed=wire.changed)  # fmt: skip
    assert ring.addresses == ("a",)
    wire.said.put(False)
    for _ in range(2):
        assert wire.asked.acquire(timeout=60)
    addresses[:] = ["b"]
    now[0] = 6.0
    assert ring.addresses == ("a",)
    wire.said.put(Unreachable("http://x", "refused"))
    assert wire.asked.acquire(timeout=60)
    assert ring.addresses == ("b",)
    wire.said.put(False)


def test_whoever_watches_for_a_ring_ends_with_it():
    wire = Wire()
    ring = RoundRobin(lambda: ["a"], "short-lived", changed=wire.changed)
    assert ring.next() == "a"
    assert wire.asked.acquire(timeout=60)
    (watcher,) = [each for each in threading.enumerate() if "short-lived" in each.name]
    del ring
    gc.collect()
    wire.said.put(True)
    watcher.join(timeout=60)
    assert not watcher.is_alive()
