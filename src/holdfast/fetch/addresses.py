"""Which IP addresses are on the public internet, by a list of our own.

`ipaddress.is_global` follows the IANA registries of special-purpose addresses, but differs between
releases of Python, calls multicast global, and judges an IPv6 address that carries an IPv4 address
by its outer form. Here:

- IPv4 is public unless it is in `FORBIDDEN_IPV4`.
- IPv6 is public if it is in 2000::/3, the only block from which addresses are assigned, and not in
  `FORBIDDEN_IPV6`. Loopback, link-local, unique local and multicast addresses, the deprecated
  IPv4-compatible ones (::/96) and the private NAT64 prefix 64:ff9b:1::/48 all lie outside.
- An IPv4-mapped address (::ffff:0:0/96) and one of the public NAT64 prefix (64:ff9b::/96, with
  which DNS64 answers on a network without IPv4) reach the IPv4 address inside; they are judged as
  that.
- 6to4 and Teredo carry IPv4 addresses too. Both are retired and no site is published there, so
  they are refused whatever is inside.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final

Address = IPv4Address | IPv6Address

FORBIDDEN_IPV4: Final = {
    IPv4Network("0.0.0.0/8"): "this network (RFC 791)",
    IPv4Network("10.0.0.0/8"): "private use (RFC 1918)",
    IPv4Network("100.64.0.0/10"): "shared by carriers (RFC 6598)",
    IPv4Network("127.0.0.0/8"): "loopback (RFC 1122)",
    # Most clouds answer here with the credentials of the machine that asks.
    IPv4Network("169.254.0.0/16"): "link-local (RFC 3927)",
    # A public address by the registry; inside Azure's machines it is the platform's own service.
    IPv4Network("168.63.129.16/32"): "the platform address of Azure",
    IPv4Network("172.16.0.0/12"): "private use (RFC 1918)",
    IPv4Network("192.0.0.0/24"): "protocol assignments (RFC 6890)",
    IPv4Network("192.0.2.0/24"): "documentation (RFC 5737)",
    IPv4Network("192.88.99.0/24"): "relays of 6to4, retired (RFC 7526)",
    IPv4Network("192.168.0.0/16"): "private use (RFC 1918)",
    IPv4Network("198.18.0.0/15"): "benchmarks (RFC 2544)",
    IPv4Network("198.51.100.0/24"): "documentation (RFC 5737)",
    IPv4Network("203.0.113.0/24"): "documentation (RFC 5737)",
    IPv4Network("224.0.0.0/4"): "multicast (RFC 5771)",
    IPv4Network("240.0.0.0/4"): "reserved, and broadcast (RFC 1112, RFC 8190)",
}
FORBIDDEN_IPV6: Final = {
    IPv6Network("2001::/23"): "protocol assignments, Teredo among them (RFC 2928)",
    IPv6Network("2001:db8::/32"): "documentation (RFC 3849)",
    IPv6Network("2002::/16"): "6to4, retired (RFC 7526)",
    IPv6Network("3fff::/20"): "documentation (RFC 9637)",
}
_ASSIGNED_IPV6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


class ForbiddenAddress(Exception):
    """An address is not on the public internet, and none that was allowed by name."""


class AddressPolicy:
    """Decide which addresses may be connected to.

    Args:
        allow_private: every address is allowed; for development.
        allowed_networks: networks that are allowed beside the public internet, `10.1.0.0/16`.

    Raises:
        ValueError: a network cannot be read.
    """

    def __init__(
        self, *, allow_private: bool = False, allowed_networks: Sequence[str] = ()
    ) -> None:
        self.allow_private = allow_private
        self._allowed = tuple(ip_network(text) for text in allowed_networks)

    def check(self, addresses: Iterable[Address]) -> None:
        """Refuse `addresses` unless all of them are allowed.

        Raises:
            ForbiddenAddress: the first that is not.
        """
        for address in addresses:
            reason = None if self._is_allowed(address) else why_forbidden(address)
            if reason is not None:
                raise ForbiddenAddress(f"{address} is not public: {reason}")

    def _is_allowed(self, address: Address) -> bool:
        reached = reached_address(address)
        return self.allow_private or any(
            reached.version == network.version and reached in network for network in self._allowed
        )


def reached_address(address: Address) -> Address:
    """Return the IPv4 address inside a mapped or NAT64 address, else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def why_forbidden(address: Address) -> str | None:
    """Return why an address is not on the public internet; None where it is."""
    reached = reached_address(address)
    if isinstance(reached, IPv4Address):
        reasons = (why for network, why in FORBIDDEN_IPV4.items() if reached in network)
    elif reached not in _ASSIGNED_IPV6:
        return "outside 2000::/3, the assigned addresses (RFC 4291)"
    else:
        reasons = (why for network, why in FORBIDDEN_IPV6.items() if reached in network)
    return next(reasons, None)
