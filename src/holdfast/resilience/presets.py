"""Ready policies for the downstreams that Holdfast's own systems call.

Each is an ordinary `RetryPolicy`; take one as it is, or change it with `dataclasses.replace`.
"""

from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import BreakerPolicy, RateLimit, RetryPolicy

GEMINI_API = RetryPolicy(
    max_attempts=3,
    backoff=Exponential(base=1, multiplier=2, cap=8, jitter=0.3),
    attempt_timeout=30,
    breaker=BreakerPolicy(consecutive_failures=5, open_for=60, trial_calls=1),
    rate=RateLimit(per_minute=100, per_day=1000),
)
"""Costly and mostly stable: few retries, a patient breaker, the provider's own rate."""

CHATMOCK_API = RetryPolicy(
    max_attempts=3,
    backoff=Exponential(base=2, multiplier=2, cap=16, jitter=0.3),
    attempt_timeout=120,
    breaker=BreakerPolicy(consecutive_failures=3, open_for=120, trial_calls=1),
)
"""Slow and sometimes unstable: long attempts, a breaker that opens early and stays open longer."""

DATABASE = RetryPolicy(
    max_attempts=5,
    backoff=Exponential(base=0.5, multiplier=2, cap=4, jitter=0.3),
    attempt_timeout=10,
    breaker=BreakerPolicy(consecutive_failures=10, open_for=30, trial_calls=1),
)
"""Cheap calls where a deadlock now and then is normal: more and quicker retries."""

GATEWAY = RetryPolicy(
    max_attempts=3,
    backoff=Exponential(base=5, multiplier=3, cap=60, jitter=0.2),
    attempt_timeout=120,
    breaker=BreakerPolicy(
        consecutive_failures=5,
        failure_rate=0.5,
        rate_rule="at_least",
        window_seconds=120,
        open_for=60,
        trial_calls=3,
    ),
)
"""The converter gateway: 5, 15, 45 s between attempts; opens at 5 failures in a row, or where half
of the calls of 2 min fail."""

DOCUMENTS = RetryPolicy(
    max_attempts=3,
    backoff=Exponential(base=2, multiplier=2, cap=60, jitter=0),
)
"""Fetching and indexing documents: 2 s, then 4 s, then failed."""

GRADING = RetryPolicy(
    max_attempts=4,
    backoff=Exponential(base=2, multiplier=2, cap=300, jitter=0.2),
    breaker=BreakerPolicy(
        consecutive_failures=None, failure_rate=0.5, window_calls=20, open_for=30, trial_calls=3
    ),
)
"""Grading by language models: 2^n s up to 5 min; opens above half of the last 20 calls."""

_ALL = {
    "CHATMOCK_API": CHATMOCK_API,
    "DATABASE": DATABASE,
    "DOCUMENTS": DOCUMENTS,
    "GATEWAY": GATEWAY,
    "GEMINI_API": GEMINI_API,
    "GRADING": GRADING,
}

NAMES = tuple(_ALL)
"""The names of all presets, sorted."""


def get(name: str) -> RetryPolicy:
    """Return the preset called `name`, as settings name it.

    Raises:
        ValueError: there is no such preset.
    """
    policy = _ALL.get(name)
    if policy is None:
        raise ValueError(f"preset must be one of {', '.join(NAMES)}, got {name!r}")
    return policy
