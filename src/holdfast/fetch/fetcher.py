"""Fetch URLs from outside, guarded; the package's docstring lists the rules."""

import asyncio
import functools
import re
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self

import httpcore

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.fetch.addresses import AddressPolicy
from holdfast.fetch.decompression import OFFERED
from holdfast.fetch.fetch_errors import FetchCode, FetchError, failure
from holdfast.fetch.fetch_limits import FetchLimits
from holdfast.fetch.fetch_response import (
    REDIRECTS,
    Fetched,
    FetchResponse,
    RawAnswer,
    as_fetch_errors,
)
from holdfast.fetch.pinned_connection import PinnedConnection
from holdfast.fetch.resolver import (
    Resolver,
    SystemResolver,
    check_addresses,
    checked_addresses,
)
from holdfast.fetch.urls import Url, parse_url, redirect_url
from holdfast.settings import Environment

USER_AGENT = "Holdfast-Fetcher/1"
_SETTING = "FETCH_ALLOW_PRIVATE"
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_OWN_HEADERS = frozenset(
    {"accept-encoding", "connection", "content-length", "host", "transfer-encoding"}
)
_Headers = Sequence[tuple[str, str]]


@dataclass(slots=True)
class _Hop:
    """The host that a fetch has asked last."""

    site: str | None = None


class Fetcher:
    """Fetch URLs that come from outside; an async context manager, or call `aclose` at the end.

    Args:
        limits: what one fetch may cost.
        allow_private: fetch from any address, this machine included; for development.
        allowed_networks: networks that may be reached beside the public internet, `10.1.0.0/16`.
        clock: for waits that a server asks for as a date.
        resolver: finds the addresses of a name; the operating system's by default.
        user_agent: how the fetcher introduces itself.
        backend: opens the sockets; httpcore's own by default.
        ssl_context: whom to trust; the machine's certificates by default.

    Raises:
        ValueError: a network or the user agent cannot be used.
    """

    def __init__(
        self,
        limits: FetchLimits | None = None,
        *,
        allow_private: bool = False,
        allowed_networks: Sequence[str] = (),
        clock: Clock = SYSTEM_CLOCK,
        resolver: Resolver | None = None,
        user_agent: str = USER_AGENT,
        backend: httpcore.AsyncNetworkBackend | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self.limits = limits or FetchLimits()
        self._policy = AddressPolicy(allow_private=allow_private, allowed_networks=allowed_networks)
        self._clock = clock
        self._resolver = resolver or SystemResolver()
        self._headers = _checked({"User-Agent": user_agent})
        self._backend = backend or httpcore.AnyIOBackend()
        self._ssl_context = ssl_context or _machine_trust()

    @classmethod
    def from_environment(
        cls,
        environment: Environment,
        limits: FetchLimits | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> Self:
        """Return a fetcher that allows private addresses where `FETCH_ALLOW_PRIVATE` is 1.

        Raises:
            BadSetting: it is neither 0 nor 1.
        """
        return cls(limits, allow_private=allows_private(environment), clock=clock)

    @property
    def start_warning(self) -> str | None:
        """One line to show when a service starts; None where private addresses are refused."""
        if not self._policy.allow_private:
            return None
        return (
            f"{_SETTING}=1: everyone who may submit a URL reaches this machine and its network. "
            "This is for development only."
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the threads of the resolver; fetches that still run are not cut off."""
        if isinstance(self._resolver, SystemResolver):
            self._resolver.close()

    def check(self, url: str) -> Url:
        """Refuse a URL that can never be fetched, without any I/O; return it in its one form.

        A host that is a name is not resolved here: every fetch does that anew.

        Raises:
            PermanentFetchError: `URL_INVALID`, or `URL_REFUSED` for an address or a port that is
                not allowed.
        """
        checked = parse_url(url)
        if checked.address is not None:
            check_addresses([checked.address], self._policy)
        return checked

    async def get(
        self, url: str, *, etag: str | None = None, last_modified: str | None = None
    ) -> Fetched:
        """Return the whole answer; with `etag` or `last_modified` only if there is a newer one.

        Raises:
            FetchError: it failed; its `code` says how, and `PermanentFetchError` that it would
                fail again.
            ValueError: `etag` or `last_modified` cannot be a header.
        """
        async with self.open(url, etag=etag, last_modified=last_modified) as response:
            return await response.read()

    @asynccontextmanager
    async def open(
        self, url: str, *, etag: str | None = None, last_modified: str | None = None
    ) -> AsyncIterator[FetchResponse]:
        """Open an answer, to read its body piece by piece while the block runs.

        The time limit covers the whole block. Raises as `get`, while the body is read too.
        """
        asked = {"If-None-Match": etag, "If-Modified-Since": last_modified}
        conditions = _checked({name: value for name, value in asked.items() if value})
        async with self._within_time() as hop:
            answer = await self._follow(hop, parse_url(url), [("Accept", "*/*"), *conditions])
            try:
                yield await self._begin(answer, conditional=bool(conditions))
            finally:
                await answer.aclose()

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        read_body: bool = True,
    ) -> Fetched:
        """Send `body` and return the answer. No redirect is followed.

        Args:
            url: where to.
            body: what is sent.
            headers: sent beside it.
            read_body: False returns as soon as the status is there, with the body and all that
                describes it empty: for servers whose status says all, and whose body may be slow.

        Raises:
            FetchError: as `get`; `FETCH_TOO_MANY_REDIRECTS` for any redirect.
            ValueError: a header cannot be sent, or is one that the fetcher sets itself.
        """
        sent = _checked(headers or {})
        async with self._within_time() as hop:
            answer = await self._send(hop, "POST", parse_url(url), sent, body)
            try:
                if answer.status in REDIRECTS:
                    raise failure(FetchCode.FETCH_TOO_MANY_REDIRECTS, status=answer.status)
                if not read_body:
                    now = self._clock.wall()
                    answer.check_status(conditional=False, wall_now=now, needs_body=False)
                    return _without_body(answer)
                response = await self._begin(answer, conditional=False)
                return await response.read()
            finally:
                await answer.aclose()

    @asynccontextmanager
    async def _within_time(self) -> AsyncIterator[_Hop]:
        """Limit the time of one fetch, and note in its error which host failed."""
        limit, hop = asyncio.timeout(self.limits.max_seconds), _Hop()
        try:
            async with limit:
                yield hop
        except FetchError as error:
            error.site = hop.site
            raise
        except TimeoutError as error:
            if not limit.expired():
                raise
            late = failure(FetchCode.FETCH_TIMEOUT)
            late.site = hop.site
            raise late from error

    async def _follow(self, hop: _Hop, url: Url, headers: _Headers) -> RawAnswer:
        """Return the first answer that is not a redirect."""
        for _ in range(self.limits.max_redirects + 1):
            answer = await self._send(hop, "GET", url, headers, None)
            if answer.status not in REDIRECTS:
                return answer
            await answer.aclose()
            url = redirect_url(url, answer.location())
        raise failure(FetchCode.FETCH_TOO_MANY_REDIRECTS)

    async def _send(
        self, hop: _Hop, method: str, url: Url, headers: _Headers, body: bytes | None
    ) -> RawAnswer:
        """Check the host, and send one request to it."""
        hop.site = url.authority
        addresses = await checked_addresses(url, self._resolver, self._policy)
        connection = PinnedConnection(
            url, addresses, self.limits, backend=self._backend, ssl_context=self._ssl_context
        )
        own = [("Host", url.authority), ("Accept-Encoding", OFFERED), ("Connection", "close")]
        if body is not None:
            own.append(("Content-Length", str(len(body))))
        try:
            with as_fetch_errors():
                answer = await connection.send(method, [*own, *self._headers, *headers], body)
        except BaseException:
            await connection.aclose()
            raise
        return RawAnswer(str(url), answer, connection)

    async def _begin(self, answer: RawAnswer, *, conditional: bool) -> FetchResponse:
        answer.check_status(conditional=conditional, wall_now=self._clock.wall())
        response = FetchResponse(answer, self.limits)
        await response.begin()
        return response


def allows_private(environment: Environment) -> bool:
    """Say whether `FETCH_ALLOW_PRIVATE` lets fetchers reach private addresses.

    Raises:
        BadSetting: it is neither 0 nor 1.
    """
    return environment.choice(_SETTING, "0", ("0", "1")) == "1"


def _without_body(answer: RawAnswer) -> Fetched:
    return Fetched(
        url=answer.url,
        status=answer.status,
        content_type="",
        charset=None,
        body=b"",
        etag=None,
        last_modified=None,
        not_modified=False,
    )


def _checked(headers: Mapping[str, str]) -> _Headers:
    """Return headers that can be sent and leave the request as it is."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
            raise ValueError(f"the header {name!r} cannot be set")
        # Unicode would need an encoding, and a line break would begin another header.
        if not (value.isascii() and value.isprintable()):
            raise ValueError(f"the header {name} must be printable ASCII, got {value!r}")
    return list(headers.items())


@functools.cache
def _machine_trust() -> ssl.SSLContext:
    return ssl.create_default_context()
