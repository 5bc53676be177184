"""Refuse requests of browser pages, and requests for a host of another name.

The gateway serves programs. A page of any site that is open on the same machine could send it
requests as well. Browsers name the page's origin, which no program has a reason to send. A page
whose own name was made to resolve to the gateway's address is known by `Host`.
"""

import ipaddress
from collections.abc import Callable, Collection

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

_TYPED_BY_A_PERSON = "none"
"""What browsers send as `Sec-Fetch-Site` for an address that no page asked for."""


class OriginCheck:
    """Let requests of programs through to `app`.

    Args:
        app: what answers them.
        names: what the gateway is called, beside `localhost` and IP addresses.
        refuse: answers the others; it gets one line for people.
    """

    def __init__(
        self,
        app: ASGIApp,
        names: Collection[str],
        refuse: Callable[[Request, str], Response],
    ) -> None:
        self._app = app
        self._names = frozenset(name.lower() for name in names) | {"localhost"}
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        line = self._objection(Headers(scope=scope)) if scope["type"] == "http" else None
        answer = self._app if line is None else self._refuse(Request(scope), line)
        await answer(scope, receive, send)

    def _objection(self, headers: Headers) -> str | None:
        if "origin" in headers or headers.get("sec-fetch-site", "none") != _TYPED_BY_A_PERSON:
            return "The converter does not take requests of web pages."
        name = host_name(headers.get("host", ""))
        if name in self._names or _is_address(name):
            return None
        return "The converter is not known by this name; start it with --name."


def host_name(host: str) -> str:
    """Return the name or address in a `Host` header, without its port, in lower case."""
    name = host if host.endswith("]") or ":" not in host else host.rpartition(":")[0]
    return name.lower()


def _is_address(name: str) -> bool:
    # A name cannot be made to resolve elsewhere where there is no name.
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
