"""Addresses: how they are written, who can reach them, what is said when they are taken."""

import pytest

from holdfast.api.listening import Address, CannotListen, bind, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7700", Address("127.0.0.1", 7700)),
        ("127.0.0.1", Address("127.0.0.1", 7700)),
        ("[::1]:80", Address("::1", 80)),
        ("[::1]", Address("::1", 7700)),
        ("localhost:0", Address("localhost", 0)),
        (":8000", Address("", 8000)),
        ("unix:/run/hf.sock", Address(path="/run/hf.sock")),
    ],
)
def test_addresses_are_read_as_people_write_them(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["127.0.0.1:x", "127.0.0.1:99999", "host:-1", "host:"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match="not an address"):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("127.0.0.1:1", True), ("127.9.9.9:1", True), ("[::1]:1", True), ("localhost:1", True),
        ("unix:/x", True), ("0.0.0.0:1", False), ("[::]:1", False), ("10.0.0.1:1", False),
        (":1", False), ("example.org:1", False),
    ],
)  # fmt: skip
def test_only_this_machine_is_local(text, local):
    assert parse_address(text).is_local is local


def test_an_address_is_told_so_that_it_can_be_used():
    assert Address("0.0.0.0", 7).url(tls=False, near=True) == "http://127.0.0.1:7"
    assert Address("::", 7).url(tls=True, near=True) == "https://[::1]:7"
    assert Address("h", 7).url(tls=False) == "http://h:7"
    assert Address(path="/a").url(tls=False) == "unix:/a"


def test_a_free_port_is_found_and_a_taken_one_is_told():
    door, address = bind(Address("127.0.0.1", 0))
    with door:
        door.listen()
        assert address.port != 0
        with pytest.raises(CannotListen, match="in use"):
            bind(address)


def test_a_host_that_is_not_ours_is_told():
    with pytest.raises(CannotListen):
        bind(Address("203.0.113.1", 0))


def test_a_socket_left_by_a_dead_server_is_replaced_and_a_living_one_is_not(tmp_path):
    address = Address(path=str(tmp_path / "folder" / "hf.sock"))
    door, _ = bind(address)
    door.close()
    door, _ = bind(address)
    with door:
        assert (tmp_path / "folder" / "hf.sock").stat().st_mode & 0o777 == 0o600
        door.listen()
        with pytest.raises(CannotListen, match="in use"):
            bind(address)


def test_a_file_in_the_place_of_a_socket_is_left_alone(tmp_path):
    path = tmp_path / "precious"
    path.write_text("mine")
    with pytest.raises(CannotListen):
        bind(Address(path=str(path)))
    assert path.read_text() == "mine"
