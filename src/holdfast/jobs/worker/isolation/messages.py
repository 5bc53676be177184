"""Claims, failures and progress as they cross the socket between a worker and its child.

The worker trusts nothing that a child sends: whatever does not fit is a `BrokenFrame`.
"""

import math
from collections.abc import Mapping
from typing import Any

from holdfast.children import BrokenFrame
from holdfast.errors import Category, error_code
from holdfast.jobs.downstreams.record import Admission
from holdfast.jobs.error_text import clean
from holdfast.jobs.model import Claim, Lease
from holdfast.jobs.worker.failure import Failure
from holdfast.jobs.worker.traceback_text import shorten
from holdfast.resilience.diagnosis import Diagnosis


def dump_claim(claim: Claim) -> dict[str, Any]:
    """Return what a child has to know of a claim."""
    lease = claim.lease
    fields = {name: getattr(claim, name) for name in _CLAIM_FIELDS}
    return fields | {"lease": [lease.job_id, lease.token, lease.worker_id, lease.expires_at]}


def load_claim(fields: Mapping[str, Any]) -> Claim:
    """Read back what `dump_claim` wrote."""
    known = {name: fields[name] for name in _CLAIM_FIELDS}
    return Claim(lease=Lease(*fields["lease"]), admission=Admission.CALL, permit=None, **known)


_CLAIM_FIELDS = (
    "kind", "queue", "downstream", "arguments", "attempt", "max_attempts", "owner", "created_at",
    "started_at", "deadline_at", "meta",
)  # fmt: skip


def dump_failure(failure: Failure) -> dict[str, Any]:
    """Return a failure as JSON values."""
    seen = failure.diagnosis
    return {
        "category": seen.category, "code": seen.code, "known": seen.known, "status": seen.status,
        "retry_after": seen.retry_after, "ambiguous": seen.ambiguous, "counts": seen.counts,
        "message": failure.message, "excluded": failure.excluded, "after": failure.after,
        "traceback": failure.traceback,
    }  # fmt: skip


def load_failure(fields: object) -> Failure:
    """Read back what `dump_failure` wrote, trusting nothing."""
    try:
        assert isinstance(fields, dict)
        status = fields["status"]
        seen = Diagnosis(
            Category(fields["category"]), error_code(fields["code"]), fields["known"] is True,
            status if isinstance(status, int) else None, _seconds(fields["retry_after"]),
            fields["ambiguous"] is True, fields["counts"] is True,
        )  # fmt: skip
        message, traceback = clean(str(fields["message"])), fields["traceback"]
        return Failure(
            seen, message, fields["excluded"] is True, _seconds(fields["after"]),
            shorten(traceback) if isinstance(traceback, str) else None,
        )  # fmt: skip
    except (AssertionError, KeyError, ValueError):
        raise BrokenFrame("a failure that cannot be read") from None


def load_progress(fields: object) -> tuple[float | None, str | None]:
    """Return a share between 0 and 1 and a note, trusting nothing."""
    if not isinstance(fields, list) or len(fields) != 2:
        raise BrokenFrame("progress that cannot be read")
    share, note = fields
    if share is not None and not (_is_number(share) and 0 <= share <= 1):
        raise BrokenFrame("progress that is not between 0 and 1")
    return share, None if note is None else clean(str(note))


def _seconds(value: object) -> float | None:
    if value is None:
        return None
    if not _is_number(value) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"not seconds: {value!r}")
    return float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
