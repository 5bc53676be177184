"""From an error to the verdict on its attempt."""

import errno
from dataclasses import replace
from random import Random

import pytest
from tests.support.workers import claim

from holdfast.errors import ErrorCode, Permanent
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.downstreams.record import Admission
from holdfast.jobs.history import Attempt
from holdfast.jobs.model import (
    AttemptOutcome,
    DeadLetterReason,
    Failed,
    JobError,
    Retry,
)
from holdfast.jobs.worker.failure import Failure, of_code, summarize
from holdfast.jobs.worker.verdict import decide, failed_before, needs_history
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import BreakerPolicy, RetryPolicy

IO, GW = ErrorCode.IO_ERROR, ErrorCode.GW_5XX
POLICY = RetryPolicy(max_attempts=3, backoff=Exponential(base=10, cap=60, jitter=0.0))


def kind_of(policy=POLICY, downstream=None, **options):
    app = App("a")

    @app.job(retry=policy, downstream=downstream, **options)
    async def work(ctx): ...

    return work.kind


def decided(error, *, kind=None, duration=1.0, repeated=False, **fields):
    kind = kind or kind_of()
    failure = error if isinstance(error, Failure) else summarize(error, kind, 1000.0)
    return decide(failure, claim(**fields), kind, Random(1), duration=duration, repeated=repeated)


def test_a_permanent_error_is_a_dead_letter_at_once():
    outcome = decided(Permanent("PARSE_ERROR", "no"))
    error = JobError(ErrorCode.PARSE_ERROR, "no")
    assert outcome == Failed(error, DeadLetterReason.PERMANENT)


def test_the_last_attempt_ends_in_the_dead_letters():
    assert decided(ConnectionError(), attempt=3).dead_letter is DeadLetterReason.ATTEMPTS_EXHAUSTED


@pytest.mark.parametrize(
    "token, attempt, waits", [(1, 1, 10), (6, 6, 10), (8, 6, 40), (99, 1, 900)]
)
def test_the_wait_for_another_release_follows_the_claims_that_did_not_count(token, attempt, waits):
    unread = of_code(ErrorCode.ARGUMENTS_MISMATCH)
    outcome = decided(unread, token=token, attempt=attempt, max_attempts=9)
    assert not outcome.counted
    assert 0.8 * waits <= outcome.after <= 1.2 * waits


def test_a_failed_trial_counts_like_any_attempt():
    trial = {"admission": Admission.TRIAL}
    assert isinstance(decided(ConnectionError(), attempt=2, **trial), Retry)
    last = decided(ConnectionError(), attempt=3, **trial)
    assert last.dead_letter is DeadLetterReason.ATTEMPTS_EXHAUSTED
    once = {"kind": kind_of(retry_once=[IO]), "max_attempts": 9}
    repeated = decided(of_code(IO), attempt=2, repeated=True, **once, **trial)
    assert repeated.dead_letter is DeadLetterReason.ATTEMPTS_EXHAUSTED


def test_a_failed_trial_lets_others_have_the_next_one():
    kind = kind_of(downstream=Downstream("gw", breaker=BreakerPolicy(open_for=100)))
    failure = summarize(ConnectionError(), kind, 1000.0)
    trying = claim(admission=Admission.TRIAL)
    outcome = decide(failure, trying, kind, Random(1), duration=1.0)
    assert outcome.after == 125


def test_a_trial_that_says_nothing_of_its_downstream_waits_like_any_attempt():
    kind = kind_of(downstream=Downstream("gw", breaker=BreakerPolicy(open_for=100)), policy=POLICY)
    excluded = replace(of_code(GW), excluded=True)
    assert decided(excluded, kind=kind, admission=Admission.TRIAL).after == 10


def test_a_trial_does_not_lift_what_forbids_another_attempt():
    trial = {"admission": Admission.TRIAL}
    assert isinstance(decided(Permanent("PARSE_ERROR", "no"), **trial), Failed)
    careful = kind_of(replace(POLICY, idempotent=False))
    assert isinstance(decided(TimeoutError(), kind=careful, **trial), Failed)
    late = decided(ConnectionError(), deadline_at=1005.0, **trial)
    assert late.dead_letter is DeadLetterReason.DEADLINE


@pytest.mark.parametrize("repeated, expected", [(False, Retry), (True, Failed)])
def test_a_code_of_one_retry_is_not_retried_where_it_failed_so_before(repeated, expected):
    kind = kind_of(retry_once=["UNKNOWN"])
    outcome = decided(RuntimeError("?"), kind=kind, attempt=2, max_attempts=9, repeated=repeated)
    assert isinstance(outcome, expected)
    assert isinstance(decided(ConnectionError(), kind=kind, attempt=2, repeated=True), Retry)


@pytest.mark.parametrize("error", [RuntimeError("?"), OSError(errno.EIO, "I/O error")])
def test_an_error_of_any_transient_code_has_all_attempts_of_the_policy(error):
    for attempt in (1, 2, 8):
        assert isinstance(decided(error, attempt=attempt, max_attempts=9, repeated=True), Retry)
    last = decided(error, attempt=9, max_attempts=9)
    assert last.dead_letter is DeadLetterReason.ATTEMPTS_EXHAUSTED


def test_an_unknown_effect_is_not_repeated_where_that_does_harm():
    careful = kind_of(replace(POLICY, idempotent=False))
    cut = decided(TimeoutError("no answer"), kind=careful)
    assert cut == Failed(cut.error, DeadLetterReason.PERMANENT)
    assert isinstance(decided(ConnectionRefusedError(), kind=careful), Retry)


@pytest.mark.parametrize("deadline_at, expected", [(1011.0, Failed), (1011.1, Retry)])
def test_no_retry_is_planned_that_could_only_start_after_the_deadline(deadline_at, expected):
    outcome = decided(ConnectionError(), deadline_at=deadline_at)
    assert isinstance(outcome, expected)
    if expected is Failed:
        assert outcome.dead_letter is DeadLetterReason.DEADLINE
        assert outcome.error.code is ErrorCode.GW_UNAVAILABLE


def attempts(*recorded):
    return [
        Attempt(
            "j1",
            number,
            token,
            "w",
            0.0,
            1.0,
            1.0,
            outcome,
            None if code is None else JobError(code, ""),
        )
        for token, (number, outcome, code) in enumerate(recorded, start=1)
    ]


RETRY, FAILED = AttemptOutcome.RETRY, AttemptOutcome.FAILED
RELEASED = AttemptOutcome.RELEASED


@pytest.mark.parametrize(
    "recorded, number, expected",
    [
        ([(1, RETRY, IO), (2, None, None)], 2, True),
        ([(1, RETRY, GW), (2, None, None)], 2, False),
        ([(1, RETRY, IO), (2, RETRY, GW), (3, None, None)], 3, True),
        ([(1, RELEASED, None), (1, RETRY, IO), (2, None, None)], 2, True),
        ([(1, RETRY, GW), (2, RETRY, IO), (2, RETRY, IO), (2, None, None)], 2, False),
        ([(1, RETRY, IO), (2, RETRY, IO), (2, None, None)], 2, True),
        ([(1, FAILED, IO), (1, RETRY, GW), (2, None, None)], 2, False),
        ([(1, RETRY, IO), (2, FAILED, IO), (1, RETRY, GW), (2, None, None)], 2, False),
        ([(1, RETRY, IO), (2, AttemptOutcome.LEASE_LOST, None), (1, None, None)], 1, False),
        ([], 1, False),
    ],
)
def test_only_the_attempts_of_the_jobs_present_life_count(recorded, number, expected):
    ours = claim(token=len(recorded), attempt=number)
    assert failed_before(attempts(*recorded), ours, IO) is expected


def test_history_is_read_only_where_it_decides():
    unknown, known = of_code(ErrorCode.UNKNOWN), of_code(ErrorCode.GW_5XX)
    kind = kind_of(retry_once=["UNKNOWN"])
    assert needs_history(unknown, claim(attempt=2, max_attempts=3), kind)
    assert not needs_history(unknown, claim(attempt=1, max_attempts=3), kind)
    assert not needs_history(unknown, claim(attempt=3, max_attempts=3), kind)
    assert not needs_history(known, claim(attempt=2, max_attempts=3), kind)
    assert not needs_history(unknown, claim(attempt=2, max_attempts=3), kind_of())
