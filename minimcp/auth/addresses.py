"""The reach of an IP address: whether it is public, private or of the machine's own link.

`ipaddress.is_global` is not used: its answer differs between releases of Python, and it ignores the
IPv4 address inside an IPv6 address that a translator or a tunnel forwards to.
https://www.iana.org/assignments/iana-ipv4-special-registry
https://www.iana.org/assignments/iana-ipv6-special-registry
"""

from __future__ import annotations

from enum import IntEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Iterator, Union


class Reach(IntEnum):
    """The machines that can use an address; a larger one is closer to this machine."""

    PUBLIC = 0
    PRIVATE = 1
    LINK = 2
    """The link of this machine, where clouds serve credentials to every program that asks."""


_LINK_4 = (
    IPv4Network("169.254.0.0/16"),  # metadata of most clouds
    IPv4Network("192.0.0.192/32"),  # metadata of Oracle Cloud
    IPv4Network("100.100.100.200/32"),  # metadata of Alibaba Cloud
    IPv4Network("168.63.129.16/32"),  # services of Azure for its machines
)

_PRIVATE_4 = tuple(map(IPv4Network, (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
    "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
)))  # fmt: skip

_LINK_6 = (
    IPv6Network("fe80::/10"),
    IPv6Network("fd00:ec2::254/128"),  # metadata of AWS
    IPv6Network("fd20:ce::254/128"),  # metadata of Google Cloud
)

# Everything outside of this network is private, multicast or not assigned.
_GLOBAL_6 = IPv6Network("2000::/3")

_PRIVATE_6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "3fff::/20")))

# Networks whose addresses carry the IPv4 address that packets reach in the end, and how many bits
# follow that address.
_EMBEDDING = (
    (IPv6Network("::/96"), 0),  # IPv4-compatible; also :: and ::1
    (IPv6Network("::ffff:0:0/96"), 0),  # IPv4-mapped
    (IPv6Network("::ffff:0:0:0/96"), 0),  # IPv4-translated
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    # NAT64 of a site, in the form in which 48 zeros precede the IPv4 address. Other forms have the
    # address at another position, so they count as private.
    (IPv6Network("64:ff9b:1::/96"), 0),
    (IPv6Network("2002::/16"), 80),  # 6to4
)

_TEREDO = IPv6Network("2001::/32")

# The middle of an ISATAP address, which may begin with any prefix; the IPv4 address follows.
_ISATAP = (0x00005EFE, 0x02005EFE)

_ALL_32 = 0xFFFFFFFF


def reach_of(address: str) -> Reach:
    """Return the reach of an address, or of the IPv4 address inside it.

    Args:
        address: An address from `socket.getpeername` or `socket.getaddrinfo`, with or without a
            zone.

    Raises:
        ValueError: The text is not an IP address.
    """
    found: Union[IPv4Address, IPv6Address] = ip_address(address.partition("%")[0])
    if isinstance(found, IPv4Address):
        return _reach_of_4(found)
    embedded = list(_embedded(found))
    if any(found in network for network in _LINK_6):
        return Reach.LINK
    if embedded:
        return max(map(_reach_of_4, embedded))
    is_public = found in _GLOBAL_6 and not any(found in network for network in _PRIVATE_6)
    return Reach.PUBLIC if is_public else Reach.PRIVATE


def _reach_of_4(address: IPv4Address) -> Reach:
    if any(address in network for network in _LINK_4):
        return Reach.LINK
    is_private = any(address in network for network in _PRIVATE_4)
    return Reach.PRIVATE if is_private else Reach.PUBLIC


def _embedded(address: IPv6Address) -> Iterator[IPv4Address]:
    """Yield every IPv4 address that a packet to this address may reach."""
    bits = int(address)
    for network, behind in _EMBEDDING:
        if address in network:
            yield IPv4Address(bits >> behind & _ALL_32)
    if address in _TEREDO:
        yield IPv4Address(bits >> 64 & _ALL_32)  # the server, which relays
        yield IPv4Address(bits & _ALL_32 ^ _ALL_32)  # the client
    if address in _GLOBAL_6 and bits >> 32 & _ALL_32 in _ISATAP:
        yield IPv4Address(bits & _ALL_32)


def may_lead_to(origin: str, address: str) -> bool:
    """Return whether a server may cause a connection to an address.

    A server on the internet may name other machines on the internet. A server in a private network
    may also name machines in private networks, but not on the link of this machine unless it is
    there itself.

    Args:
        origin: Address of the connection over which the server sent the name; empty if it is not
            known, and the server counts as public.
        address: Address that the name leads to.
    """
    try:
        wanted = reach_of(address)
        own = reach_of(origin) if origin else Reach.PUBLIC
    except ValueError:
        return False
    return wanted <= own
