"""Find out how long a downstream asked us to wait."""

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from holdfast.errors import CircuitOpenError, RateLimitedError, RetryLater
from holdfast.resilience.error_attributes import (
    MOST_DEPTH,
    MOST_ERRORS,
    UNREADABLE,
    attribute,
    group_members,
    inner_errors,
    is_a,
)

LONGEST_WAIT = 366 * 86_400.0
"""Seconds. No server means more than this; it is bounded and not ignored, because a shorter wait
would be sooner than asked."""

_MOST_DETAILS = 32
_NUMBER = re.compile(r"\d{1,30}(?:\.\d{0,30})?", re.ASCII)
_DURATION = re.compile(r"(\d{1,30}(?:\.\d{0,30})?)s", re.ASCII)


def retry_after(error: BaseException, *, wall_now: float) -> float | None:
    """Return the wait that was asked for in seconds from `wall_now`, or None where none was.

    Read `retry_after` and `Retry-After` as seconds or date, `retry-after-ms`, the `RetryInfo` of
    Google's errors, and our own errors; look through causes. Of a group, take the longest.
    """
    return _search(error, wall_now, set())


def _search(error: BaseException, wall_now: float, seen: set[int], depth: int = 0) -> float | None:
    if id(error) in seen or len(seen) >= MOST_ERRORS or depth >= MOST_DEPTH:
        return None
    seen.add(id(error))
    for asked in _asked(error, wall_now):
        if asked is not None:
            return asked
    waits = [_search(member, wall_now, seen, depth + 1) for member in group_members(error)]
    longest = max((wait for wait in waits if wait is not None), default=None)
    if longest is not None:
        return longest
    for inner in inner_errors(error):
        asked = _search(inner, wall_now, seen, depth + 1)
        if asked is not None:
            return asked
    return None


def _asked(error: BaseException, wall_now: float) -> Iterator[float | None]:
    if is_a(error, RetryLater):
        yield _seconds(error.after)
    if is_a(error, CircuitOpenError) or is_a(error, RateLimitedError):
        yield None if error.retry_at is None else _bounded(error.retry_at - wall_now)
    yield _wait(attribute(error, "retry_after"), wall_now)
    response = attribute(error, "response")
    for headers in (attribute(response, "headers"), attribute(error, "headers")):
        yield from _from_headers(headers, wall_now)
    if is_a(response, dict):
        metadata = response.get("ResponseMetadata")
        if is_a(metadata, dict):
            yield from _from_headers(metadata.get("HTTPHeaders"), wall_now)
    yield _retry_info(attribute(error, "details"), 0)


def _from_headers(headers: object, wall_now: float) -> Iterator[float | None]:
    if headers is None:
        return
    milliseconds = _wait(_header(headers, "retry-after-ms"), wall_now, dates=False)
    yield None if milliseconds is None else milliseconds / 1000
    yield _wait(_header(headers, "retry-after"), wall_now)


def _header(headers: object, name: str) -> object:
    # Not every mapping of headers ignores case, and not everything with headers is a mapping.
    try:
        if isinstance(headers, Mapping):
            for key in headers:
                if is_a(key, str) and key.lower() == name:
                    return headers[key]
            return None
        getter = attribute(headers, "get")
        return getter(name) if callable(getter) else None
    except UNREADABLE:
        return None


def _wait(value: object, wall_now: float, *, dates: bool = True) -> float | None:
    """Return seconds from a number, a text, a duration or, unless `dates` is off, a date."""
    if is_a(value, bytes):
        value = value.decode("latin-1")
    if is_a(value, timedelta):
        return _seconds(value.total_seconds())
    if (is_a(value, int) or is_a(value, float)) and not is_a(value, bool):
        return _seconds(value)
    if is_a(value, str):
        stripped = value[:100].strip()
        if _NUMBER.fullmatch(stripped):
            return _seconds(float(stripped))
        return _until(_date(stripped), wall_now) if dates else None
    if is_a(value, datetime) and dates:
        return _until(value, wall_now)
    return None


def _date(value: str) -> datetime | None:
    # Loaded when a server sends a date: the e-mail package is a fifth of the whole import.
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _until(moment: datetime | None, wall_now: float) -> float | None:
    if moment is None:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return _bounded(moment.timestamp() - wall_now)


def _seconds(value: float) -> float | None:
    """Return the number as a wait; None for a negative one or NaN."""
    return float(min(value, LONGEST_WAIT)) if value >= 0 and value != math.inf else None


def _bounded(seconds: float) -> float | None:
    """Return the wait within its limits; one that is over already asks for no more waiting."""
    return None if math.isnan(seconds) else float(min(max(seconds, 0.0), LONGEST_WAIT))


def _retry_info(details: object, depth: int) -> float | None:
    """Return `retryDelay` ("17s") of a google.rpc.RetryInfo, however deep Google nested it."""
    if depth > 4:
        return None
    if is_a(details, dict):
        delay = details.get("retryDelay")
        matched = _DURATION.fullmatch(delay) if is_a(delay, str) else None
        if matched:
            return _seconds(float(matched[1]))
        nested = [details.get("error"), details.get("details")]
    else:
        nested = (
            list(details[:_MOST_DETAILS]) if is_a(details, list) or is_a(details, tuple) else []
        )
    for each in nested:
        found = _retry_info(each, depth + 1)
        if found is not None:
            return found
    return None
