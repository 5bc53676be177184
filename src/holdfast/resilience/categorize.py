"""Decide what an error means: will it pass, what is it called, may its effect have happened.

The evidence is weighed in this order: our own errors, the exception's type, an HTTP status, a
database's code, the system's errno, then the same of the errors it wraps, and words last. So a
message that happens to contain "404" never decides over a type or a status that is known.
"""

import socket
from dataclasses import replace
from enum import Enum

from holdfast.errors import (
    ERRORS,
    AttemptTimeout,
    Category,
    DeadlineExceeded,
    ErrorCode,
    HoldfastError,
    Permanent,
    RetryLater,
    stored_code,
)
from holdfast.resilience.codes import (
    by_errno,
    by_resolver,
    by_result,
    by_sqlstate,
    by_status,
    by_status_word,
)
from holdfast.resilience.diagnosis import OUR_OWN, UNRECOGNISED, Diagnosis, permanent, transient
from holdfast.resilience.error_attributes import (
    MOST_DEPTH,
    MOST_ERRORS,
    UNREADABLE,
    attribute,
    driver_result,
    inner_errors,
    is_a,
    is_plain,
    text,
)
from holdfast.resilience.known_errors import KnownType, by_type, by_words, is_from, never_connected
from holdfast.resilience.retry_after import retry_after

__all__ = ["Diagnosis", "categorize", "diagnose"]

_TIMEOUTS = (ErrorCode.TIMEOUT, ErrorCode.GW_TIMEOUT)


def categorize(error: BaseException) -> Category:
    """Return whether trying again can help; an error that nothing is known of is transient."""
    return _diagnosis(error, set(), 0).category


def diagnose(error: BaseException, *, wall_now: float) -> Diagnosis:
    """Return the full diagnosis of an error; `wall_now` is the time in epoch seconds."""
    found = _diagnosis(error, set(), 0)
    if found.category is Category.PERMANENT or is_plain(error):
        return found
    asked = retry_after(error, wall_now=wall_now)
    return found if asked is None else replace(found, retry_after=asked)


def _diagnosis(error: BaseException, seen: set[int], depth: int) -> Diagnosis:
    return _evidence(error, seen, depth) or _by_words(error, set()) or UNRECOGNISED


def _evidence(error: BaseException, seen: set[int], depth: int) -> Diagnosis | None:
    """Return what is known of the error or of what it wraps without a look at any words."""
    if id(error) in seen or len(seen) >= MOST_ERRORS or depth >= MOST_DEPTH:
        return None
    seen.add(id(error))
    if is_a(error, HoldfastError):
        own = _own(error, seen, depth)
        if own is not None:
            return own
    if is_a(error, BaseExceptionGroup):
        return _of_group(error, seen, depth)
    kind: type = type(error)
    known_type = by_type(kind)
    if known_type is not None and not known_type.vague:
        return known_type.diagnosis
    found = None
    if not is_plain(error):
        found = _by_attributes(error) or _wrapped(error, seen, depth)
    return found if known_type is None else _refined(known_type, found, error)


def _own(error: HoldfastError, seen: set[int], depth: int) -> Diagnosis | None:
    code = attribute(error, "code")
    if not is_a(code, str):
        return None
    code = stored_code(code)
    if is_a(error, AttemptTimeout) or is_a(error, DeadlineExceeded):
        # The code is also that of a job whose deadline has passed, which is final; one call
        # that took too long is not.
        return transient(code, ambiguous=True)
    if is_a(error, Permanent):
        verdict = permanent(code)
    elif is_a(error, RetryLater):
        verdict = transient(code)
    elif code == ErrorCode.UNKNOWN:
        return None
    elif code in ERRORS and ERRORS[code].category is Category.PERMANENT:
        verdict = permanent(code)
    else:
        verdict = transient(code, ambiguous=code in _TIMEOUTS)
    if code in OUR_OWN:
        return verdict
    cause = _wrapped(error, seen, depth)
    if is_a(error, RetryLater):
        # Without a cause it is a request of the operation, not a failure of the downstream.
        verdict = replace(verdict, counts=cause is not None and cause.counts)
    if cause is None:
        return verdict
    return replace(verdict, status=cause.status, ambiguous=cause.ambiguous)


def _of_group(
    group: BaseExceptionGroup[BaseException], seen: set[int], depth: int
) -> Diagnosis | None:
    """Return a permanent member's verdict if there is one, else what the members add up to."""
    members = [_diagnosis(member, seen, depth + 1) for member in group.exceptions]
    for member in members:
        if member.category is Category.PERMANENT:
            return member
    leading = next((member for member in members if member.known), members[0])
    return replace(
        leading,
        ambiguous=any(member.ambiguous for member in members),
        counts=any(member.counts for member in members),
    )


def _wrapped(error: BaseException, seen: set[int], depth: int) -> Diagnosis | None:
    for inner in inner_errors(error):
        found = _evidence(inner, seen, depth + 1)
        if found is not None:
            return found
    return None


def _refined(known_type: KnownType, found: Diagnosis | None, error: BaseException) -> Diagnosis:
    """Combine what the instance shows with what is known of its type."""
    default = known_type.diagnosis
    if found is None or (known_type.network and found.code is ErrorCode.IO_ERROR):
        if default.ambiguous and never_connected(text(error)):
            return replace(default, ambiguous=False)
        return default
    if found.ambiguous and not default.ambiguous:
        # The type knows that nothing had been sent yet.
        return replace(found, ambiguous=False)
    return found


def _by_attributes(error: BaseException) -> Diagnosis | None:
    return _by_http(error) or _by_database(error) or _by_system(error)


def _by_http(error: BaseException) -> Diagnosis | None:
    response = attribute(error, "response")
    if is_a(response, dict):
        return _by_amazon(response)
    statuses = [
        attribute(response, "status_code"),
        attribute(response, "status"),
        attribute(error, "status_code"),
        attribute(error, "http_status"),
    ]
    # Libraries use these names for many things, so only error numbers are believed.
    codes = [_code(error), attribute(error, "status")]
    for values, lowest in ((statuses, 300), (codes, 400)):
        for value in values:
            number = _number(value)
            found = by_status(number) if number >= lowest else None
            if found is not None:
                return found
    for value in codes:
        word = value.name if is_a(value, Enum) else value
        found = by_status_word(word) if is_a(word, str) else None
        if found is not None:
            return found
    return None


def _code(error: BaseException) -> object:
    value = attribute(error, "code")
    if callable(value) and is_from(type(error), "grpc"):
        try:
            return value()
        except UNREADABLE:
            return None
    # Ours share a few names with gRPC's and mean other things.
    return None if is_a(error, HoldfastError) or is_a(value, ErrorCode) else value


def _number(value: object) -> int:
    """Return an HTTP status that is an int or a text of three digits, else 0."""
    if is_a(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
        return int(value)
    return value if is_a(value, int) and 100 <= value < 600 else 0


def _by_amazon(response: dict[object, object]) -> Diagnosis | None:
    """Judge the answer on a botocore ClientError; its code is more exact than its status."""
    problem, metadata = response.get("Error"), response.get("ResponseMetadata")
    word = problem.get("Code") if is_a(problem, dict) else None
    found = by_status_word(word) if is_a(word, str) else None
    if found is None and is_a(metadata, dict):
        number = _number(metadata.get("HTTPStatusCode"))
        found = by_status(number) if number else None
    return found


def _by_database(error: BaseException) -> Diagnosis | None:
    for name in ("sqlstate", "pgcode"):
        state = attribute(error, name)
        found = by_sqlstate(state) if is_a(state, str) else None
        if found is not None:
            return found
    result = driver_result(error)
    if result is None and is_from(type(error), "apsw"):
        result = attribute(error, "result")
    return by_result(result) if is_a(result, int) else None


def _by_system(error: BaseException) -> Diagnosis | None:
    number = attribute(error, "errno")
    if not is_a(number, int):
        return None
    # The resolver counts its errors on its own, and some of its numbers are errnos as well.
    return by_resolver(number) if is_a(error, socket.gaierror) else by_errno(number)


def _by_words(error: BaseException, seen: set[int]) -> Diagnosis | None:
    if id(error) in seen or len(seen) >= MOST_DEPTH:
        return None
    seen.add(id(error))
    found = by_words(text(error))
    if found is not None or is_plain(error):
        return found
    for inner in inner_errors(error):
        found = _by_words(inner, seen)
        if found is not None:
            return found
    return None
