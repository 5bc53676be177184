"""Which addresses are public, and which only look so."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest

from holdfast.fetch.addresses import (
    FORBIDDEN_IPV4,
    FORBIDDEN_IPV6,
    AddressPolicy,
    ForbiddenAddress,
    reached_address,
    why_forbidden,
)

PUBLIC = """
    1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1
    168.63.129.15 168.63.129.17 169.253.255.255 172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255
    192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255 2606:4700:4700::1111 2a00:1450::1
    2001:200::1 2001:4860:4860::8888 3ffe::1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8
"""

FORBIDDEN = """
    0.0.0.0 0.1.2.3 10.0.0.0 10.255.255.255 100.64.0.0 100.100.100.200 100.127.255.255 127.0.0.1
    127.255.255.255 168.63.129.16 169.254.0.1 169.254.169.254 172.16.0.0 172.31.255.255 192.0.0.9
    192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1
    224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
    :: ::1 ::7f00:1 ::8.8.8.8 ::ffff:0:8.8.8.8 64:ff9b:1::8.8.8.8 64:ff9b:1:7f00:0:100:: 100::1
    2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:2::1 2001:10::1 2001:20::1 2001:1ff:ffff::1
    2001:db8::1 2002:7f00:1:: 2002:808:808:: 3fff::1 3fff:fff::1 4000::1 5f00::1 fc00::1
    fd00:ec2::254 fe80::1 fec0::1 ff02::1
    ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:0.0.0.0 64:ff9b::127.0.0.1
    64:ff9b::a00:1 64:ff9b::169.254.169.254
"""


@pytest.mark.parametrize("text", PUBLIC.split())
def test_an_address_of_the_public_internet_is_allowed(text):
    assert why_forbidden(ip_address(text)) is None
    AddressPolicy().check([ip_address(text)])


@pytest.mark.parametrize("text", FORBIDDEN.split())
def test_an_address_that_is_not_public_is_forbidden_with_a_reason(text):
    assert "RFC" in why_forbidden(ip_address(text)) or text == "168.63.129.16"
    with pytest.raises(ForbiddenAddress, match="is not public"):
        AddressPolicy().check([ip_address(text)])


@pytest.mark.parametrize("network", [*FORBIDDEN_IPV4, *FORBIDDEN_IPV6])
def test_a_forbidden_network_is_forbidden_from_its_first_to_its_last_address(network):
    assert why_forbidden(network[0]) is not None
    assert why_forbidden(network[-1]) is not None


@pytest.mark.parametrize("text", ["192.0.0.9", "224.0.0.1", "168.63.129.16", "64:ff9b::127.0.0.1"])
def test_the_standard_library_calls_some_of_them_global(text):
    assert ip_address(text).is_global
    assert why_forbidden(ip_address(text)) is not None


def test_the_address_inside_a_mapped_and_a_translated_one_is_reached():
    assert reached_address(IPv6Address("::ffff:10.0.0.1")) == IPv4Address("10.0.0.1")
    assert reached_address(IPv6Address("64:ff9b::10.0.0.1")) == IPv4Address("10.0.0.1")
    assert reached_address(IPv6Address("2606::1")) == IPv6Address("2606::1")
    assert reached_address(IPv4Address("10.0.0.1")) == IPv4Address("10.0.0.1")


def test_one_forbidden_address_among_public_ones_is_enough():
    with pytest.raises(ForbiddenAddress, match=r"10\.0\.0\.1.*RFC 1918"):
        AddressPolicy().check([ip_address("8.8.8.8"), ip_address("10.0.0.1")])


def test_a_network_that_is_allowed_by_name_is_allowed_alone():
    policy = AddressPolicy(allowed_networks=["10.1.0.0/16", "fd00:1::/32"])

    policy.check(map(ip_address, ["10.1.2.3", "fd00:1::7", "8.8.8.8", "::ffff:10.1.2.3"]))
    for text in ("10.2.0.1", "fd00:2::7", "127.0.0.1"):
        with pytest.raises(ForbiddenAddress):
            policy.check([ip_address(text)])


def test_everything_is_allowed_in_development():
    AddressPolicy(allow_private=True).check(map(ip_address, FORBIDDEN.split()))


def test_a_network_that_cannot_be_read_is_refused():
    with pytest.raises(ValueError, match=r"10\.0\.0\.1/8"):
        AddressPolicy(allowed_networks=["10.0.0.1/8"])
