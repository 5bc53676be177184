"""Find the addresses of a host, once, and refuse it if any of them may not be connected to."""

import asyncio
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Protocol

from holdfast.fetch.addresses import Address, AddressPolicy, ForbiddenAddress, reached_address
from holdfast.fetch.fetch_errors import FetchCode, failure
from holdfast.fetch.urls import Url

_THREADS = 16
"""Names that are resolved at a time."""


class Resolver(Protocol):
    """Look up the addresses of a host name."""

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return the IP addresses, the best one first.

        Raises:
            OSError: there are none; `socket.gaierror` above all.
        """
        ...


class SystemResolver:
    """Ask the operating system, in threads of its own.

    The event loop's own threads are few and shared: names whose servers do not answer would keep
    them from everyone else for seconds.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="holdfast-resolver")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of `host`, in the order in which the system would try them."""
        found = await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        return [str(address[0]) for *_, address in found]

    def close(self) -> None:
        """End the threads, each after the name that it is resolving."""
        self._threads.shutdown(wait=False, cancel_futures=True)


async def checked_addresses(
    url: Url, resolver: Resolver, policy: AddressPolicy
) -> tuple[Address, ...]:
    """Return the addresses that may be connected to for `url`; at least one.

    Raises:
        FetchError: `HOST_NOT_FOUND`.
        PermanentFetchError: `URL_REFUSED`; at least one of the addresses is forbidden.
    """
    addresses = await _addresses(url, resolver)
    check_addresses(addresses, policy)
    return tuple(dict.fromkeys(_connectable(address) for address in addresses))


def check_addresses(addresses: Sequence[Address], policy: AddressPolicy) -> None:
    """Refuse addresses unless all of them may be connected to.

    Raises:
        PermanentFetchError: `URL_REFUSED`.
    """
    try:
        policy.check(addresses)
    except ForbiddenAddress as error:
        raise failure(FetchCode.URL_REFUSED) from error


async def _addresses(url: Url, resolver: Resolver) -> list[Address]:
    if url.address is not None:
        return [url.address]
    try:
        found = await resolver(url.host, url.port)
    except OSError as error:
        raise failure(FetchCode.HOST_NOT_FOUND) from error
    if not found:
        raise failure(FetchCode.HOST_NOT_FOUND)
    # A link-local address comes with its interface, "fe80::1%eth0".
    return [ip_address(text.partition("%")[0]) for text in found]


def _connectable(address: Address) -> Address:
    """Return the IPv4 address of a mapped one; a NAT64 address is reached as it is."""
    mapped = address.version == 6 and address.ipv4_mapped is not None
    return reached_address(address) if mapped else address
