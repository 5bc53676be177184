"""Requests for jobs: validate their options and turn them into `NewJob` values."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from holdfast.jobs.declare.codecs import check_size
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.declare.job_handle import JobHandle, RequestOptions
from holdfast.jobs.declare.job_request import JobRequest
from holdfast.jobs.declare.json_codec import JsonCodec
from holdfast.jobs.declare.kinds import Codec, JobKind
from holdfast.jobs.declare.validation import UNSTORABLE, ValidationError, check_rule, shown
from holdfast.jobs.dedup import DedupRule
from holdfast.jobs.model import JobStatus, NewJob
from holdfast.resilience import checks

__all__ = ["JobHandle", "JobRequest", "RequestOptions", "needs_now", "prepare"]

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:~-]{0,199}")
_KEY_LENGTH = 500
_PRIORITIES = range(-32768, 32768)
_FIRST_NUMBER = 1_000_000_000.0
"""Epoch seconds in 2001; a smaller number was meant as seconds from now."""
_MOMENTS = (-62135596800.0, 253402300800.0)
"""The years 1 to 9999, the range of a datetime, in epoch seconds."""


def needs_now(request: JobRequest[Any, Any], kind: JobKind) -> bool:
    """Say whether `prepare` needs the current time."""
    return (
        kind.deadline is not None
        or request.deadline is not None
        or request.delay is not None
        or isinstance(request.run_at, timedelta)
    )


def prepare(
    request: JobRequest[Any, Any], kind: JobKind, new_id: str, now: float, limit: int
) -> NewJob:
    """Return the job to store; `limit` is the most bytes of its arguments.

    Raises:
        ValidationError: the arguments or an option are invalid.
        PayloadTooLarge: the arguments are larger than `limit`.
    """
    arguments = kind.handler.arguments.encode(request.args)
    check_size("arguments", kind.name, arguments, limit)
    run_at = deadline_at = rule = None
    try:
        _check_options(request)
        if request.dedup != "complete" or request.dedup_for is not None:
            rule = _dedup_rule(request)
        if request.run_at is not None or request.delay is not None:
            run_at = _earliest_start(request, now)
        if request.deadline is not None or kind.deadline is not None:
            deadline_at = _deadline(request, kind, now, run_at)
    except (TypeError, ValueError) as error:
        raise ValidationError(f"job {kind.name}", str(error)) from None
    # Positional: passing 14 fields by name takes a quarter of this function's time.
    return NewJob(
        request.id or new_id,
        kind.name,
        kind.queue,
        arguments,
        None if kind.downstream is None else _downstream(kind.downstream, kind, arguments),
        JobStatus.UPLOADED if request.uploaded else JobStatus.QUEUED,
        request.priority,
        kind.policy.max_attempts,
        run_at,
        deadline_at,
        request.dedup_key,
        request.owner,
        None if request.meta is None else _meta(request.meta, kind, limit),
        rule,
    )


def check_rules(jobs: Iterable[NewJob]) -> None:
    """Refuse jobs of one call that share a dedup key but not its rule.

    Raises:
        ValidationError: two jobs do.
    """
    keyed = [job for job in jobs if job.dedup_key is not None]
    if all(job.dedup_rule is None for job in keyed):
        return
    rules: dict[tuple[str, str], DedupRule | None] = {}
    for job in keyed:
        check_rule(rules, job)


def _check_options(request: JobRequest[Any, Any]) -> None:
    if request.id is not None and (
        not isinstance(request.id, str) or _ID.fullmatch(request.id) is None
    ):
        raise ValueError(
            f"id must be 1 to 200 letters, digits and '._:~-', the first a letter or a digit, got "
            f"{shown(request.id)}"
        )
    if request.dedup_key is not None:
        _check_key("dedup_key", request.dedup_key)
    if request.owner is not None:
        _check_key("owner", request.owner)
    if not isinstance(request.uploaded, bool):
        raise TypeError(f"uploaded must be True or False, got {shown(request.uploaded)}")
    if request.priority != 0:
        checks.whole("priority", request.priority, at_least=_PRIORITIES.start)
        if request.priority not in _PRIORITIES:
            last = _PRIORITIES[-1]
            raise ValueError(f"priority must be at most {last}, got {request.priority!r}")


def _dedup_rule(request: JobRequest[Any, Any]) -> DedupRule:
    if request.dedup not in {"complete", "unfinished"}:
        raise ValueError(f"dedup must be 'complete' or 'unfinished', got {shown(request.dedup)}")
    if request.dedup_key is None:
        raise ValueError("dedup and dedup_for need a dedup_key")
    within = request.dedup_for
    seconds = within.total_seconds() if isinstance(within, timedelta) else within
    checks.number("dedup_for", seconds, above=0, optional=True)
    return DedupRule(request.dedup == "unfinished", None if seconds is None else float(seconds))


def _check_key(field: str, value: str) -> None:
    checks.label(field, value)
    if len(value) > _KEY_LENGTH or UNSTORABLE.search(value) is not None:
        raise ValueError(
            f"{field} must have at most {_KEY_LENGTH} characters, no NUL and no lone surrogate, "
            f"got {shown(value)}"
        )


def _earliest_start(request: JobRequest[Any, Any], now: float) -> float:
    if request.delay is None:
        assert request.run_at is not None
        return _moment("run_at", request.run_at, now)
    if request.run_at is not None:
        raise ValueError("give run_at or delay, not both")
    delay = request.delay
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    checks.number("delay", seconds, at_least=0)
    return now + seconds


def _moment(field: str, value: float | datetime | timedelta, now: float) -> float:
    """Return epoch seconds; a number is in epoch seconds already."""
    if isinstance(value, timedelta):
        moment = now + value.total_seconds()
    elif isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{field} must have a time zone, got {value!r}")
        moment = value.timestamp()
    else:
        checks.number(field, value)
        if value < _FIRST_NUMBER:
            raise ValueError(
                f"{field} as a number is in epoch seconds, got {value!r}, a moment before 2001; "
                f"delay= takes seconds from now"
            )
        moment = float(value)
    first, last = _MOMENTS
    if not first <= moment <= last:
        raise ValueError(f"{field} must be in the years 1 to 9999, got {shown(value)}")
    return moment


def _deadline(
    request: JobRequest[Any, Any], kind: JobKind, now: float, run_at: float | None
) -> float | None:
    value = request.deadline
    if value is None:
        start = now if run_at is None else max(now, run_at)
        return None if kind.deadline is None else start + kind.deadline
    if isinstance(value, datetime | timedelta):
        moment = _moment("deadline", value, now)
    else:
        checks.number("deadline", value)
        moment = now + value
    if moment <= (now if run_at is None else run_at):
        name = "now" if run_at is None else "the earliest start, which run_at or delay sets"
        raise ValueError(f"deadline must be later than {name}, got {value!r}")
    return moment


def _downstream(downstream: Downstream, kind: JobKind, arguments: str) -> str:
    if downstream.key is None:
        return downstream.name
    try:
        return downstream.name_for(kind.handler.arguments.decode(arguments))
    except Exception as error:
        raise ValidationError(
            f"arguments of {kind.name}",
            f"the key of downstream {downstream.name!r} failed: {error}",
        ) from error


def _meta(meta: Mapping[str, Any], kind: JobKind, limit: int) -> str:
    subject = f"meta of {kind.name}"
    if not isinstance(meta, Mapping):
        raise ValidationError(subject, f"must be a mapping, got {shown(meta)}")
    text = _meta_codec(subject).encode(dict(meta))
    check_size("meta", kind.name, text, limit)
    return text


@cache
def _meta_codec(subject: str) -> Codec:
    return JsonCodec(Any, subject)
