"""Record what a worker finished: its reports as columns, and the answers to them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.jobs.model import (
    Cancelled,
    Completed,
    Failed,
    Finished,
    JobStatus,
    Outcome,
    Released,
    Retry,
)
from holdfast.jobs.store_port import Refusal
from holdfast.store.error_columns import error_columns
from holdfast.store.postgres.columns import none_if_empty, one_if_equal
from holdfast.store.text import clean_or_none

_Columns = tuple[str, str | None, str | None, str | None, str | None, str | None, float | None]
_COMPLETE = "complete"
_PLAIN = Completed()
_COMPLETED: _Columns = (_COMPLETE, None, None, None, None, None, None)


def report_columns(finished: Sequence[Finished], seqs: Mapping[str, int]) -> dict[str, Any]:
    """Return the reports as the arrays that `tick` takes; `seqs` are known ones, by job id."""
    leases = [item.lease for item in finished]
    columns = _outcome_columns([item.outcome for item in finished])
    outcomes, results, codes, messages, groups, reasons, delays = map(
        list, zip(*columns, strict=True)
    )
    return {
        "seqs": [seqs.get(lease.job_id) for lease in leases],
        "ids": [lease.job_id for lease in leases],
        "tokens": one_if_equal([lease.token for lease in leases]),
        "workers": one_if_equal([lease.worker_id for lease in leases]),
        "outcomes": one_if_equal(outcomes),
        "results": none_if_empty(results),
        "codes": none_if_empty(codes),
        "messages": none_if_empty(messages),
        "groups": none_if_empty(groups),
        "reasons": none_if_empty(reasons),
        "delays": none_if_empty(delays),
        "durations": none_if_empty([item.duration for item in finished]),
        "metas": none_if_empty([clean_or_none(item.meta) for item in finished]),
        "tracebacks": none_if_empty([clean_or_none(item.traceback) for item in finished]),
    }


_OPTIONAL = (
    "ids", "tokens", "workers", "outcomes", "results", "codes", "messages", "groups", "reasons",
    "delays", "durations", "metas", "tracebacks",
)  # fmt: skip
NO_REPORTS: dict[str, Any] = {"seqs": [], **dict.fromkeys(_OPTIONAL)}
"""The columns of no reports."""


def _outcome_columns(outcomes: Sequence[Outcome]) -> Sequence[_Columns]:
    if outcomes[0] == _PLAIN and outcomes.count(outcomes[0]) == len(outcomes):
        return [_COMPLETED]  # one for all, see `one_if_equal`
    return [_columns(outcome) for outcome in outcomes]


def _columns(outcome: Outcome) -> _Columns:
    """Return outcome, result, code, message, group, dead-letter reason, delay in seconds."""
    match outcome:
        case Completed(None):
            return _COMPLETED
        case Completed(result):
            return _COMPLETE, clean_or_none(result), None, None, None, None, None
        case Retry(after, error, counted):
            return "retry" if counted else "uncounted", None, *error_columns(error), None, after
        case Failed(error, reason):
            dead_letter = None if reason is None else str(reason)
            return "failed", None, *error_columns(error), dead_letter, None
        case Released(after):
            return "released", None, None, None, None, None, after
        case Cancelled():
            return "cancelled", None, None, None, None, None, None


REFUSALS = {"stale": Refusal.STALE, "late": Refusal.LATE}
"""Lines of an answer that say that a report changed nothing."""
OVERRULINGS = {"failed": JobStatus.FAILED, "cancelled": JobStatus.CANCELLED}
"""Lines of an answer that say that a report's job went elsewhere."""


_REQUEUING = frozenset((Retry, Released))


def wakes(finished: Iterable[Finished]) -> bool:
    """Say whether a report may have put a job into the queue, its own or a new one."""
    # `isinstance` would ask the metaclass of the structs, which takes three times as long.
    return any(item.jobs or type(item.outcome) in _REQUEUING for item in finished)
