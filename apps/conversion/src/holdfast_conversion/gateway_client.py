"""Call the gateway, and turn its answers into error codes."""

import asyncio
import functools
import json
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from holdfast import (
    Clock,
    ErrorCode,
    HoldfastError,
    Permanent,
    SystemClock,
    retry_after,
)
from holdfast_conversion.error_codes import line_of

_log = logging.getLogger(__name__)
_CONNECT_SECONDS = 5.0
_LONGEST_REASON = 200
_MOST_REASON_BYTES = 4096
_LONGEST_WAIT = 3600.0
"""Seconds of a Retry-After that are honoured. A user waits for the file, so a longer one is taken
for a mistake; one call an hour burdens no gateway."""
_WRONG_ADDRESS = frozenset({401, 403, 404, 405})
"""Statuses that are not about the file: the address is not a converter, or refuses us."""
_NO_CONVERTER = "There is no converter at present. Please tell the operator of this service."
_XML_TYPES = frozenset({"application/xml", "text/xml"})
_NOT_PACKED = {"accept-encoding": "identity"}
"""No answer is ever unpacked: a few kilobytes can become gigabytes at once."""


class GatewayError(HoldfastError):
    """The gateway did not convert a file, and may do so next time, `retry_after` seconds later."""

    def __init__(
        self, code: ErrorCode, retry_after: float | None = None, *, is_retried: bool = True
    ) -> None:
        super().__init__(line_of(code, is_retried=is_retried))
        self.code = code
        self.retry_after = retry_after


class GatewayClient:
    """Speak with the gateway at `url`; a call that takes longer than `timeout` seconds is cut."""

    def __init__(self, url: str, timeout: float, clock: Clock | None = None) -> None:
        self.url = url
        self._timeout = timeout
        self._clock = clock or SystemClock()

    async def check(self) -> None:
        """Ask whether the gateway is well.

        Raises:
            httpx.HTTPError: it is not.
        """
        async with (
            self._client() as client,
            # Its status alone counts. The body is not read: it may have no end.
            client.stream("GET", f"{self.url}/health", headers=_NOT_PACKED) as answer,
        ):
            answer.raise_for_status()

    @asynccontextmanager
    async def convert(
        self,
        pdf: AsyncIterator[bytes],
        size: int,
        mapping: str,
        key: str,
        answered: Callable[[int], None] = lambda _: None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a PDF of `size` bytes, and yield the pieces of its XML while the block runs.

        The whole block counts as the call: its timeout covers it. `answered` gets the HTTP status.

        Raises:
            Permanent: `GW_4XX`; the gateway cannot work with this file.
            GatewayError: `GW_5XX`, `GW_TIMEOUT`, `GW_UNAVAILABLE` or `RATE_LIMITED`.
        """
        headers = {
            **_NOT_PACKED,
            "accept": "application/xml",
            "content-type": "application/pdf",
            "content-length": str(size),
            "idempotency-key": key,
        }
        try:
            async with asyncio.timeout(self._timeout), self._client() as client:
                request = client.build_request(
                    "POST",
                    f"{self.url}/convert",
                    params={"mapping": mapping},
                    content=pdf,
                    headers=headers,
                )
                answer = await client.send(request, stream=True)
                answered(answer.status_code)
                try:
                    await _check(answer, self._clock)
                    yield answer.aiter_raw()
                finally:
                    await answer.aclose()
        except (TimeoutError, httpx.ReadTimeout, httpx.WriteTimeout) as error:
            raise GatewayError(ErrorCode.GW_TIMEOUT) from error
        except httpx.RequestError as error:
            raise GatewayError(ErrorCode.GW_UNAVAILABLE) from error

    def _client(self) -> httpx.AsyncClient:
        # One a call: they belong to no event loop beyond it, and what is costly is shared.
        limits = httpx.Timeout(None, connect=min(_CONNECT_SECONDS, self._timeout))
        return httpx.AsyncClient(timeout=limits, trust_env=False, verify=_trust())


@functools.cache
def _trust() -> ssl.SSLContext:
    return ssl.create_default_context()


def not_xml() -> GatewayError:
    """Return the error for an answer with status 200 that is not XML: a failure of the gateway."""
    return GatewayError(ErrorCode.GW_5XX)


async def _check(answer: httpx.Response, clock: Clock) -> None:
    """Raise unless the answer is the XML that was asked for."""
    status = answer.status_code
    if status == 200:
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in _XML_TYPES or _is_packed(answer):
            raise not_xml()
        return
    cause = httpx.HTTPStatusError(f"HTTP {status}", request=answer.request, response=answer)
    asked = retry_after(cause, wall_now=clock.wall())
    wait = None if asked is None else min(asked, _LONGEST_WAIT)
    if status == 408:
        raise GatewayError(ErrorCode.GW_TIMEOUT, wait) from cause
    if status == 429:
        raise GatewayError(ErrorCode.RATE_LIMITED, wait) from cause
    if status in _WRONG_ADDRESS:
        _log.error("HTTP %d: no converter answers at its address; check GATEWAY_URL", status)
        raise Permanent(ErrorCode.GW_4XX, _NO_CONVERTER) from cause
    if 400 <= status < 500:
        raise Permanent(ErrorCode.GW_4XX, _refusal(await _reason(answer))) from cause
    raise GatewayError(ErrorCode.GW_5XX, wait) from cause


def _is_packed(answer: httpx.Response) -> bool:
    return answer.headers.get("content-encoding", "").strip().lower() not in ("", "identity")


def _refusal(reason: str) -> str:
    return f"{line_of(ErrorCode.GW_4XX)} {reason}".rstrip()


async def _reason(answer: httpx.Response) -> str:
    """Return the gateway's own line for people where it gave one that is fit to show."""
    data = b""
    try:
        async for piece in answer.aiter_raw():
            data += piece
            if len(data) > _MOST_REASON_BYTES:
                return ""
        body: Any = json.loads(data)
        line = body["error"]["message"]
    except (httpx.RequestError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    if not isinstance(line, str) or not line.isprintable() or len(line) > _LONGEST_REASON:
        return ""
    return line.strip()
