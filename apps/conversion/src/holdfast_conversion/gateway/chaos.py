"""Faults on command, to watch how callers handle them.

Only a gateway started with `--chaos` has them, and only a caller on the same machine may ask for
them: `PUT /chaos` with a fault as JSON, `GET /chaos` to look, `DELETE /chaos` to end it.
"""

import ipaddress
import math
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from holdfast import Clock
from holdfast_conversion.gateway.origin_check import host_name

_LONGEST_SECONDS = 3600.0
_MOST_REQUESTS = 1_000_000
_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Mode(StrEnum):
    """Name a fault."""

    FAIL = "fail"
    """Answer with a 5xx status."""
    SLOW = "slow"
    """Convert as usual, after a delay."""
    HANG = "hang"
    """Take the request and never answer."""
    RESET = "reset"
    """Break the connection without an answer."""
    CUT = "cut"
    """Break the connection in the middle of the answer."""
    GARBAGE = "garbage"
    """Answer 200 with something that is not XML."""
    VANISH = "vanish"
    """Refuse connections, as if no gateway ran."""


class BadFault(ValueError):
    """A fault that cannot be set; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is to go wrong, in which share of requests, and for how long.

    `seconds` and `requests` bound it, whichever comes first; None is no bound. `status` is for
    `fail`, `delay` (seconds) for `slow`.
    """

    mode: Mode
    share: float = 1.0
    seconds: float | None = None
    requests: int | None = None
    status: int = 500
    delay: float = 5.0


def parse(fields: object) -> Fault:
    """Return the fault that `fields`, as read from JSON, describe.

    Raises:
        BadFault: they describe none.
    """
    if not isinstance(fields, dict):
        raise BadFault("a fault is a JSON object with a mode")
    unknown = sorted(set(fields) - {"mode", "share", "seconds", "requests", "status", "delay"})
    if unknown:
        raise BadFault(f"unknown field {unknown[0]!r}")
    try:
        mode = Mode(fields.get("mode", ""))
    except ValueError:
        raise BadFault(f"mode must be one of {', '.join(Mode)}") from None
    fault = Fault(
        mode=mode,
        share=_number(fields, "share", 0.0, 1.0, 1.0),
        seconds=_number_or_none(fields, "seconds", _LONGEST_SECONDS),
        requests=_whole_or_none(fields, "requests", _MOST_REQUESTS),
        status=_whole(fields, "status", 500, 599, 500),
        delay=_number(fields, "delay", 0.0, _LONGEST_SECONDS, 5.0),
    )
    if mode is Mode.VANISH and fault.seconds is None:
        raise BadFault("vanish needs seconds: a closed gateway cannot be told to return")
    return fault


class Chaos:
    """The fault that is on, if any."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self._fault: Fault | None = None
        self._ends = math.inf
        self._left = math.inf

    def set(self, fault: Fault | None) -> None:
        """Turn `fault` on in place of what was on; None turns all off."""
        self._fault = fault
        self._ends = self._left = math.inf
        if fault is not None and fault.seconds is not None:
            self._ends = self._clock.monotonic() + fault.seconds
        if fault is not None and fault.requests is not None:
            self._left = fault.requests

    def now(self) -> Fault | None:
        """Return the fault that is on."""
        if self._left <= 0 or self._clock.monotonic() >= self._ends:
            self._fault = None
        return self._fault

    def strike(self) -> Fault | None:
        """Return the fault that the next request meets, or None for none; it is counted."""
        fault = self.now()
        if fault is None:
            return None
        self._left -= 1
        return fault if self._rng.random() < fault.share else None

    def describe(self) -> dict[str, Any]:
        """Return what is on, for JSON: the fault, and the seconds and requests left of it."""
        fault = self.now()
        if fault is None:
            return {"mode": None}
        left = {
            "secondsLeft": None if self._ends == math.inf else self._ends - self._clock.monotonic(),
            "requestsLeft": None if self._left == math.inf else int(self._left),
        }
        return {**asdict(fault), **left}


def is_local(client: str | None, host: str) -> bool:
    """Say whether a request came from this machine and was meant for it, by address and Host."""
    try:
        near = client is not None and ipaddress.ip_address(client).is_loopback
    except ValueError:
        return False
    # A page from elsewhere whose name was turned to 127.0.0.1 still carries its own name.
    return near and host_name(host) in _NAMES


def _number(fields: Mapping[str, Any], name: str, low: float, high: float, default: float) -> float:
    value = fields.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadFault(f"{name} must be a number from {low:g} to {high:g}")
    return value


def _number_or_none(fields: Mapping[str, Any], name: str, high: float) -> float | None:
    return None if fields.get(name) is None else _number(fields, name, 0.0, high, 0.0)


def _whole(fields: Mapping[str, Any], name: str, low: int, high: int, default: int) -> int:
    value = _number(fields, name, low, high, default)
    if value != int(value):
        raise BadFault(f"{name} must be a whole number from {low} to {high}")
    return int(value)


def _whole_or_none(fields: Mapping[str, Any], name: str, high: int) -> int | None:
    return None if fields.get(name) is None else _whole(fields, name, 1, high, 1)
