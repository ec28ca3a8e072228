"""Which addresses an effect may be sent to: public ones, and those that were named."""

from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)  # fmt: skip
from typing import Final

Network = IPv4Network | IPv6Network
_TRANSLATED: Final = ip_network("64:ff9b::/96")


def network_of(text: str) -> Network | None:
    """The network that is written so; None for the name of a host."""
    try:
        return ip_network(text, strict=False)
    except ValueError:
        if not text or "/" in text or (text[0].isdigit() and text[-1].isdigit()):
            raise ValueError(f"private: {text!r} is neither a network nor a host") from None
        return None


def is_public(address: str) -> bool:
    """Whether anybody on the internet has this address: an IPv4 address in another dress is
    judged by what it is."""
    found = _plain(ip_address(address))
    return found.is_global and not found.is_multicast


def is_listed(host: str, address: str, listed: tuple[str, ...]) -> bool:
    """Whether a host was named, by its name or by a network its address is in."""
    found = _plain(ip_address(address))
    for each in listed:
        network = network_of(each)
        if network is None:
            if each.lower() == host.lower():
                return True
        elif found.version == network.version and found in network:
            return True
    return False


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
