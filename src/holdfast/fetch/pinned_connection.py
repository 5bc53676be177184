"""Connect to the addresses that were checked, and to no other, while the request keeps the name."""

import ssl
from collections.abc import Iterable, Sequence
from typing import Any

import httpcore

from holdfast.fetch.addresses import Address
from holdfast.fetch.fetch_errors import FetchCode, failure
from holdfast.fetch.fetch_limits import FetchLimits
from holdfast.fetch.urls import Url

_MOST_ADDRESSES = 4
"""Addresses of one name that are tried; they share the time for connecting."""

_READ_BYTES = 16 * 1024
"""Bytes that are read at a time. All of them are parsed before other tasks run again, and parsing
thousands of tiny chunks takes long."""


class PinnedConnection:
    """One connection, for one request, to one of `addresses`.

    httpcore takes the host of the URL for the `Host` header and the certificate; where the socket
    goes is decided by the backend that it is given here.

    Args:
        addresses: what was checked for the URL's host.
        backend: opens the sockets.
        ssl_context: whom to trust.
    """

    def __init__(
        self,
        url: Url,
        addresses: Sequence[Address],
        limits: FetchLimits,
        *,
        backend: httpcore.AsyncNetworkBackend,
        ssl_context: ssl.SSLContext,
    ) -> None:
        self._url = httpcore.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)
        self._limits = limits
        self._allowance = _Allowance(limits.max_head_bytes)
        self._network = _PinnedNetwork(addresses, self._allowance, backend)
        self._connection = httpcore.AsyncHTTPConnection(
            self._url.origin, ssl_context=ssl_context, network_backend=self._network
        )

    async def send(
        self, method: str, headers: Sequence[tuple[str, str]], body: bytes | None
    ) -> httpcore.Response:
        """Connect, send the request, and return the answer once its headers have arrived.

        Raises:
            httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError: it
                failed.
            FetchError: `FETCH_TOO_LARGE`; interim answers do not end.
        """
        request = httpcore.Request(
            method,
            self._url,
            headers=[(name.encode("ascii"), value.encode("latin-1")) for name, value in headers],
            content=body,
            extensions={"timeout": {"connect": self._limits.connect_seconds}},
        )
        answer = await self._connection.handle_async_request(request)
        self._allowance.grant(self._limits.max_framed_bytes)
        return answer

    async def aclose(self) -> None:
        """Close the socket."""
        await self._connection.aclose()
        # httpcore does not know of a socket whose TLS handshake was cancelled.
        await self._network.aclose()


class _Allowance:
    """Bytes that may still arrive."""

    __slots__ = ("_left",)

    def __init__(self, count: int) -> None:
        self._left = count

    def grant(self, count: int) -> None:
        self._left += count

    def spend(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise failure(FetchCode.FETCH_TOO_LARGE)


class _PinnedNetwork(httpcore.AsyncNetworkBackend):
    """Open one socket, to one of the addresses, whatever host is asked for."""

    def __init__(
        self,
        addresses: Sequence[Address],
        allowance: _Allowance,
        backend: httpcore.AsyncNetworkBackend,
    ) -> None:
        self._addresses = addresses[:_MOST_ADDRESSES]
        self._allowance = allowance
        self._backend = backend
        self._opened: httpcore.AsyncNetworkStream | None = None

    async def connect_tcp(
        self,
        host: str,  # noqa: ARG002 - only for httpcore: the addresses decide
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        share = None if timeout is None else timeout / len(self._addresses)
        *others, last = self._addresses
        for address in others:
            try:
                return await self._connect(address, port, share, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._connect(last, port, share, local_address, socket_options)

    async def _connect(
        self,
        address: Address,
        port: int,
        timeout: float | None,
        local_address: str | None,
        socket_options: Iterable[Any] | None,
    ) -> httpcore.AsyncNetworkStream:
        self._opened = await self._backend.connect_tcp(
            str(address), port, timeout, local_address, socket_options
        )
        return _CountedStream(self._opened, self._allowance)

    async def aclose(self) -> None:
        """Close the socket, which may be closed already."""
        if self._opened is not None:
            await self._opened.aclose()


class _CountedStream(httpcore.AsyncNetworkStream):
    """Count what arrives, headers and framing included; under TLS, after decryption."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, allowance: _Allowance) -> None:
        self._stream = stream
        self._allowance = allowance

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._stream.read(min(max_bytes, _READ_BYTES), timeout)
        self._allowance.spend(len(data))
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        encrypted = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return _CountedStream(encrypted, self._allowance)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
