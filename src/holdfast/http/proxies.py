"""The address and the scheme of a request that a trusted proxy passed on.

Every client can send `X-Forwarded-For` and `X-Forwarded-Proto`. They count only where the
connection comes from a proxy that is trusted.
"""

import ipaddress
import re
from collections.abc import Iterable

from starlette.requests import HTTPConnection

_OWN_MACHINE = ("127.0.0.0/8", "::1/128")
_NOWHERE = "nowhere"
"""The address of a connection without one, as over a Unix socket."""
_MOST_HOPS = 20
_HOME_PREFIX = 64
"""Bits of an IPv6 address that name a client: it may use all addresses that begin with them."""

_WITH_PORT = re.compile(r"\[(?P<v6>[^]]*:[^]]*)\](?::[0-9]{1,5})?|(?P<v4>[0-9.]+):[0-9]{1,5}")

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class TrustedProxies:
    """Find out where requests come from.

    Args:
        networks: addresses and networks of the proxies, like `10.0.0.7` and `172.16.0.0/12`; None
            is the server's own machine.

    Raises:
        ValueError: one of them is neither.
    """

    def __init__(self, networks: Iterable[str] | None = None) -> None:
        self._networks: tuple[_Network, ...] = tuple(
            ipaddress.ip_network(each) for each in (_OWN_MACHINE if networks is None else networks)
        )

    def address(self, connection: HTTPConnection) -> str:
        """Return the address that limits count: the client's, or its network where it is IPv6."""
        found = _parsed(connection.client.host if connection.client else "")
        if found is None:
            return _NOWHERE
        hops = ",".join(connection.headers.getlist("x-forwarded-for")).rsplit(",", _MOST_HOPS)
        # Each proxy adds at the right the address that it was called from.
        for hop in reversed(hops):
            passed_on = _parsed(_without_port(hop.strip()))
            if passed_on is None or not self._trusts(found):
                break
            found = passed_on
        if isinstance(found, ipaddress.IPv6Address):
            return str(ipaddress.ip_network((found, _HOME_PREFIX), strict=False))
        return str(found)

    def is_https(self, connection: HTTPConnection) -> bool:
        """Say whether the client speaks https, with this server or with a trusted proxy."""
        if connection.scope.get("scheme") == "https":
            return True
        peer = _parsed(connection.client.host if connection.client else "")
        if peer is None or not self._trusts(peer):
            return False
        said = connection.headers.get("x-forwarded-proto", "")
        return said.rpartition(",")[2].strip().lower() == "https"

    def _trusts(self, address: _Address) -> bool:
        return any(
            address.version == network.version and address in network for network in self._networks
        )


def _without_port(hop: str) -> str:
    """Return the address of `192.0.2.1:5678`, `[::1]:80` or `[::1]`; anything else as it is."""
    match = _WITH_PORT.fullmatch(hop)
    return hop if match is None else match["v6"] or match["v4"]


def _parsed(text: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
