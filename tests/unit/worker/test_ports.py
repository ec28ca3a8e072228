"""Ports: free ones, each for one replica, and how they are written."""

import socket

from holdfast.worker.ports import Ports, address_of, own_address


def test_every_name_has_a_free_number_of_its_own() -> None:
    ports = Ports()
    given = ports.give(("http", "admin"))
    more = ports.give(("http",))
    numbers = [*given.values(), *more.values()]
    assert set(given) == {"http", "admin"}
    assert len(set(numbers)) == 3
    for number in numbers:
        with socket.socket() as line:
            line.bind(("127.0.0.1", number))


def test_what_is_given_is_not_given_again_before_it_was_taken_back() -> None:
    """The system may offer a number again at once: it is free as far as it knows."""
    ports = Ports()
    seen: set[int] = set()
    for _ in range(1_000):
        (number,) = ports.give(("http",)).values()
        assert number not in seen
        seen.add(number)
    ports.take_back(seen)
    assert ports.give(()) == {}


def test_an_address_is_written_as_one_connects_to_it() -> None:
    assert address_of("10.0.0.1", 80) == "10.0.0.1:80"
    assert address_of("fe80::1", 80) == "[fe80::1]:80"


def test_a_server_on_this_machine_sees_it_by_the_loopback() -> None:
    assert own_address("http://127.0.0.1:7700") == "127.0.0.1"
    assert own_address("unix:/run/holdfast.sock") == "127.0.0.1"
    assert own_address("http://no.such.host.invalid:1") == "127.0.0.1"
