"""Ask for a job: what a caller may say of it, checked and turned into what a store takes in."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Generic, TypedDict, TypeVar

from holdfast.jobs.declare.app import JobFunction
from holdfast.jobs.declare.codecs import check_size, results_codec
from holdfast.jobs.declare.downstream import Downstream
from holdfast.jobs.declare.kinds import Codec, JobKind
from holdfast.jobs.declare.validation import NEVER_KEPT, ValidationError, shown
from holdfast.jobs.model import JobStatus, NewJob
from holdfast.jobs.structs import value
from holdfast.resilience import checks

ArgsT = TypeVar("ArgsT")
ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:~-]{0,199}")
_KEY_LENGTH = 500
_PRIORITIES = range(-32768, 32768)
_MOMENTS = (-62135596800.0, 253402300800.0)
"""The years 1 to 9999, in epoch seconds: what a datetime can say."""


class RequestOptions(TypedDict, total=False):
    """What may be said of a job when it is enqueued; `JobRequest` explains each."""

    dedup_key: str | None
    owner: str | None
    priority: int
    run_at: float | datetime | timedelta | None
    deadline: float | datetime | timedelta | None
    id: str | None
    meta: Mapping[str, Any] | None
    uploaded: bool


@value
class JobRequest(Generic[ArgsT, ResultT]):
    """A job to be enqueued.

    Args:
        job: the declared function, or the name of its kind.
        args: its arguments.
        dedup_key: while a job of the same kind with the same key is unfinished or complete, that
            one is returned and none is created.
        owner: whose job it is.
        priority: higher runs first within its queue and downstream; -32768 to 32767.
        run_at: when it may start first: epoch seconds, a datetime with a time zone, or a timedelta
            from now.
        deadline: when it is failed with `TIMEOUT` if it is not finished: seconds or a timedelta
            from now, or a datetime with a time zone. By default the kind's, counted from now or
            from `run_at`, whichever is later.
        id: a name of its own, unique for good: enqueueing it again returns the first. By default
            one is made that grows with time.
        meta: JSON values for pages (file name, size, ...); a handler gets them too.
        uploaded: True creates it `uploaded`, to wait for `Engine.submit` or `Engine.reject`.
    """

    job: JobFunction[ArgsT, ResultT] | str
    args: ArgsT
    dedup_key: str | None = None
    owner: str | None = None
    priority: int = 0
    run_at: float | datetime | timedelta | None = None
    deadline: float | datetime | timedelta | None = None
    id: str | None = None
    meta: Mapping[str, Any] | None = None
    uploaded: bool = False

    @property
    def kind_name(self) -> str:
        """The name of the kind that is asked for."""
        return self.job.kind.name if isinstance(self.job, JobFunction) else self.job


@value
class JobHandle(Generic[ResultT_co]):
    """A job that was enqueued. Pass it to the engine wherever a job's id is asked for.

    `created` is False where a twin with the same `dedup_key`, or a job with the same `id`, was
    there already: then `id` is that job's.
    """

    id: str
    kind: str
    created: bool


def needs_now(request: JobRequest[Any, Any], kind: JobKind) -> bool:
    """Say whether `prepare` must know the time: something is said from now on."""
    return (
        kind.deadline is not None
        or request.deadline is not None
        or isinstance(request.run_at, timedelta)
    )


def prepare(
    request: JobRequest[Any, Any], kind: JobKind, new_id: str, now: float, limit: int
) -> NewJob:
    """Return what a store is to take in; `limit` is the most bytes that arguments may have.

    Raises:
        ValidationError: the arguments, or something else that was said, does not fit.
        PayloadTooLarge: the arguments are larger than `limit`.
    """
    arguments = kind.handler.arguments.encode(request.args)
    check_size("arguments", kind.name, arguments, limit)
    run_at = deadline_at = None
    try:
        _check_words(request)
        if request.run_at is not None:
            run_at = _moment("run_at", request.run_at, now)
        if request.deadline is not None or kind.deadline is not None:
            deadline_at = _deadline(request, kind, now, run_at)
    except (TypeError, ValueError) as error:
        raise ValidationError(f"job {kind.name}", str(error)) from None
    # By position: the names of 13 fields, looked up for every job, are a quarter of the call.
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
    )


def _check_words(request: JobRequest[Any, Any]) -> None:
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


def _check_key(field: str, value: str) -> None:
    checks.label(field, value)
    if len(value) > _KEY_LENGTH or NEVER_KEPT.search(value) is not None:
        raise ValueError(
            f"{field} must have at most {_KEY_LENGTH} characters, no NUL and no lone surrogate, "
            f"got {shown(value)}"
        )


def _moment(field: str, value: float | datetime | timedelta, now: float) -> float:
    """Return epoch seconds; a number is that already."""
    if isinstance(value, timedelta):
        moment = now + value.total_seconds()
    elif isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{field} must have a time zone, got {value!r}")
        moment = value.timestamp()
    else:
        checks.number(field, value)
        moment = float(value)
    return _in_bounds(field, moment, value)


def _in_bounds(field: str, moment: float, value: object) -> float:
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
    earliest, name = (now, "now") if run_at is None else (run_at, f"run_at ({request.run_at!r})")
    if moment <= earliest:
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
            f"the key of downstream {downstream.name!r} cannot be told: {error}",
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
    return results_codec(Any, subject)
