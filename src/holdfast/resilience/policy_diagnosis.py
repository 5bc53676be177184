"""What an error means under a policy, whose own rules come before what is known of the error."""

import logging
from collections.abc import Mapping
from dataclasses import replace

from holdfast.errors import Category, ErrorInfo, HoldfastError, Permanent, RetryLater
from holdfast.resilience import checks
from holdfast.resilience.categorize import Diagnosis, diagnose
from holdfast.resilience.policy import RetryOn, RetryPolicy

_log = logging.getLogger("holdfast.retry")
_NOTHING_DECLARED: Mapping[str, ErrorInfo] = {}


def diagnose_under(
    policy: RetryPolicy,
    error: BaseException,
    *,
    name: str,
    wall_now: float,
    declared: Mapping[str, ErrorInfo] = _NOTHING_DECLARED,
) -> Diagnosis:
    """Return the diagnosis of `error`, with the category that comes first of these.

    1. What the policy's `categorize` returns.
    2. What its `retry_on` says. The errors of Holdfast have a category of their own and need not be
       listed there. Whether a breaker counts an error that is not listed is left as it is.
    3. That of the code among the `declared` ones of an app, unless the error says it itself, as
       `Permanent` and `RetryLater` do.
    4. What is known of the error.

    Args:
        name: the call or the kind of job, for the log.
        wall_now: the time in epoch seconds.

    Raises:
        TypeError: `categorize` returned something else than a `Category` or None.
    """
    seen = diagnose(error, wall_now=wall_now)
    category = _ask_categorize(policy, error, name)
    if category is None and policy.retry_on is not None:
        if _is_listed(policy.retry_on, error, name):
            category = Category.TRANSIENT
        elif not isinstance(error, HoldfastError):
            return replace(seen, category=Category.PERMANENT, known=True)
    code = declared.get(seen.code)
    if category is None and code is not None and not isinstance(error, Permanent | RetryLater):
        category = code.category
    return _with_category(seen, category, error)


def _with_category(seen: Diagnosis, category: Category | None, error: BaseException) -> Diagnosis:
    if category is None or category is seen.category:
        return seen
    caller_fault = seen.status is not None and 400 <= seen.status < 500
    own_refusal = isinstance(error, HoldfastError) and not seen.counts
    counts = category is Category.TRANSIENT and not caller_fault and not own_refusal
    return replace(seen, category=category, known=True, counts=counts)


def _ask_categorize(policy: RetryPolicy, error: BaseException, name: str) -> Category | None:
    if policy.categorize is None:
        return None
    try:
        category = policy.categorize(error)
    except Exception:
        # The error at hand is the one that the caller must see.
        _log.exception("%s: categorize failed on %r", name, error)
        return None
    checks.instance("what categorize returns", category, Category, optional=True)
    return category


def _is_listed(retry_on: RetryOn, error: BaseException, name: str) -> bool:
    if isinstance(retry_on, type | tuple):
        return isinstance(error, retry_on)
    try:
        return bool(retry_on(error))
    except Exception:
        _log.exception("%s: retry_on failed on %r", name, error)
        return False
