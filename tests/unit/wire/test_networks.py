"""Which addresses effects may be sent to."""

import pytest

from holdfast.wire.networks import is_listed, is_public

PRIVATE = [
    "127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.9.9", "169.254.169.254", "0.0.0.0",
    "100.64.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "64:ff9b::a00:1", "fe80::1%lo",
]  # fmt: skip
PUBLIC = ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1"]


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_public_is_known(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_what_is_public_is_known(address):
    assert is_public(address)


def test_a_host_is_listed_by_name_or_network():
    listed = ("10.0.0.0/8", "Hooks.Internal", "fd00::/8")
    assert is_listed("anything", "10.9.9.9", listed)
    assert is_listed("hooks.internal", "192.168.0.1", listed)
    assert is_listed("x", "::ffff:10.0.0.1", listed)
    assert is_listed("x", "fd00::1", listed)
    assert not is_listed("x", "192.168.0.1", listed)
    assert not is_listed("hooks.internal.evil", "192.168.0.1", listed)
