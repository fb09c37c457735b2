"""The reach of addresses, which decides where a server may make this machine connect to."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from minimcp.auth.addresses import Reach, may_lead_to, reach_of

PUBLIC, PRIVATE, LINK = Reach

TABLE = {
    PUBLIC: [
        "8.8.8.8", "1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255",
        "172.32.0.0", "192.0.1.0", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
        "2606:4700::1111", "2a00::1", "2001:200::1", "3ffe::1", "2001:4860:4860::8888%eth0",
        "::8.8.8.8", "::ffff:8.8.8.8", "::ffff:0:8.8.8.8", "64:ff9b::8.8.8.8", "64:ff9b:1::8.8.8.8", "2002:808:808::1",
        "2001:0:808:808:0:0:f7f7:f7f7", "2a00::5efe:8.8.8.8", "2a00::200:5efe:8.8.8.8",
    ],
    PRIVATE: [
        "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "127.0.0.1", "127.255.255.254", "172.16.0.1",
        "172.31.255.255", "192.0.0.1", "192.0.0.8", "192.0.0.9", "192.0.0.10", "192.0.0.170", "192.0.2.1", "192.88.99.1",
        "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1",
        "240.0.0.1", "255.255.255.255",
        "::", "::1", "::1%lo", "100::1", "5f00::1", "4000::1", "fc00::1", "fd12::1", "fec0::1", "feff::1", "ff02::1", "2001::1",
        "2001:1::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:db8::1", "3fff::1", "3fff:fff::1",
        "::10.0.0.1", "::ffff:10.0.0.1", "::ffff:127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::7f00:1",
        "64:ff9b:1::10.0.0.1", "64:ff9b:1:a00:0:100:808:808", "64:ff9b:1:ffff::8.8.8.8", "2002:a00:1::1", "2002:7f00:1::",
        "2001:0:7f00:1:0:0:f7f7:f7f7", "2001:0:808:808:0:0:f5ff:fffe", "2a00::5efe:10.0.0.1", "2a00::200:5efe:127.0.0.1",
    ],
    LINK: [
        "169.254.169.254", "169.254.0.1", "192.0.0.192", "100.100.100.200", "168.63.129.16", "fe80::1", "fe80::1%eth0",
        "febf::1", "fd00:ec2::254", "fd20:ce::254", "::169.254.169.254", "::ffff:169.254.169.254", "::ffff:192.0.0.192",
        "::ffff:0:169.254.169.254", "64:ff9b::169.254.169.254", "64:ff9b:1::169.254.169.254", "2002:a9fe:a9fe::",
        "2001:0:a9fe:a9fe:0:0:f7f7:f7f7", "2001:0:808:808:0:0:5601:5601", "2a00::5efe:169.254.169.254",
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("address", "reach"), [(each, reach) for reach, several in TABLE.items() for each in several]
)
def test_the_reach_of_an_address(
    address: str, reach: Reach, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the answers of `ipaddress` differ between releases of Python
    for kind in (ipaddress.IPv4Address, ipaddress.IPv6Address):
        for name in ("is_global", "is_private", "is_link_local", "is_reserved", "is_multicast"):
            monkeypatch.delattr(kind, name)
    assert reach_of(address) is reach


@pytest.mark.parametrize(
    "address", ["", "a", "1.2.3", "0x7f.1", "[::1]", "1.2.3.4:80", "localhost"]
)
def test_an_invalid_address_is_not_connected_to(address: str) -> None:
    with pytest.raises(ValueError):
        reach_of(address)
    assert not may_lead_to("127.0.0.1", address)


@pytest.mark.parametrize(("origin", "allowed"), [
    ("", {PUBLIC}), ("8.8.8.8", {PUBLIC}), ("2606:4700::1", {PUBLIC}), ("64:ff9b::8.8.8.8", {PUBLIC}),
    ("10.0.0.1", {PUBLIC, PRIVATE}), ("127.0.0.1", {PUBLIC, PRIVATE}), ("::ffff:10.0.0.1", {PUBLIC, PRIVATE}),
    ("169.254.1.1", set(Reach)), ("fe80::1%eth0", set(Reach)),
])  # fmt: skip
def test_addresses_that_a_server_may_name(origin: str, allowed: Any) -> None:
    examples = {PUBLIC: "1.1.1.1", PRIVATE: "192.168.0.1", LINK: "169.254.169.254"}
    assert {reach for reach in Reach if may_lead_to(origin, examples[reach])} == allowed
