"""Inject the faults of `chaos` before the gateway sees a request."""

import asyncio
import contextlib
import socket
import struct

from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast import Clock
from holdfast_conversion.gateway.chaos import Chaos, Fault, Mode

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_GARBAGE = b'<?xml version="1.0" encoding="UTF-8"?>\n<document><page number="1"><p>\x00\xff</p'


class FaultInjector:
    """An ASGI app that lets requests through to `app`, unless a fault is on."""

    def __init__(self, app: ASGIApp, chaos: Chaos, clock: Clock) -> None:
        self._app = app
        self._chaos = chaos
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        fault = None
        if scope["type"] == "http" and scope["path"] != "/chaos":
            fault = self._chaos.strike()
        if fault is None:
            await self._app(scope, receive, send)
        else:
            await self._strike(fault, scope, receive, send)

    async def _strike(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        match fault.mode:
            case Mode.SLOW:
                await self._clock.sleep_async(fault.delay)
                await self._app(scope, receive, send)
            case Mode.FAIL:
                body = b'{"error":{"code":"GW_5XX","message":"This failure was asked for."}}'
                await _answer(send, fault.status, b"application/json", body, len(body))
            case Mode.GARBAGE:
                await _answer(send, 200, b"application/xml", _GARBAGE, len(_GARBAGE))
            case Mode.CUT:
                await _answer(send, 200, b"application/xml", _GARBAGE, 100_000)
                # The half is to reach the caller before the break.
                await self._clock.sleep_async(0.05)
                break_off(send)
                await _until_gone(receive)
            case Mode.HANG:
                await _until_gone(receive)
            case _:
                break_off(send)
                await _until_gone(receive)


def break_off(send: Send) -> None:
    """Reset the connection behind `send`, without an answer."""
    # ASGI cannot express this; uvicorn's `send` is a method of the object with the connection.
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if isinstance(transport, asyncio.Transport):
        connection = transport.get_extra_info("socket")
        with contextlib.suppress(OSError, AttributeError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        transport.abort()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(send: Send, status: int, kind: bytes, body: bytes, length: int) -> None:
    headers = [
        (b"content-type", kind),
        (b"content-length", str(length).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": length > len(body)})
