"""What the exception of a task means."""

from datetime import datetime, timedelta
from random import Random

import pytest
from celery.exceptions import Reject, Retry

from holdfast import Category, Exponential, Permanent, RetryLater, RetryPolicy
from holdfast.clock import SYSTEM_CLOCK
from holdfast.jobs.downstreams.record import Verdict
from holdfast.messaging.celery.task_outcome import examine

POLICY = RetryPolicy(backoff=Exponential(base=2, multiplier=2, cap=300, jitter=0))


class Limited(ConnectionError):
    """A downstream that asks to wait."""

    def __init__(self, retry_after):
        super().__init__("slow down")
        self.retry_after = retry_after


def delay_of(error, attempt=1):
    return examine(POLICY, error, "grade").delay(POLICY, attempt, Random(1))


def test_the_delay_grows_by_the_policy():
    assert [delay_of(ConnectionError("x"), n) for n in (1, 2, 3, 12)] == [2, 4, 8, 300]


@pytest.mark.parametrize("asked, delay", [(1, 2), (30, 30), (3600, 300)])
def test_a_longer_retry_after_holds_within_the_cap(asked, delay):
    assert delay_of(Limited(asked)) == delay


def test_a_delay_that_the_task_asks_for_holds_as_it_is():
    assert delay_of(RetryLater(2400.0)) == 2400.0
    assert delay_of(Retry(exc=ConnectionError("x"), when=2400)) == 2400.0
    assert delay_of(Retry(exc=ConnectionError("x"))) == 2.0


@pytest.mark.parametrize("aware", [True, False])
def test_a_retry_at_a_time_waits_until_then(aware):
    now = datetime.fromtimestamp(SYSTEM_CLOCK.wall(), tz=None).astimezone()
    at = now + timedelta(hours=1)
    if not aware:
        at = (at - at.utcoffset()).replace(tzinfo=None)  # naive times are in UTC
    assert 3500 < delay_of(Retry(exc=None, when=at)) <= 3600


def test_categories_decide_between_retry_and_dead_letter():
    categories = {
        Category.PERMANENT: [Permanent("BAD", "x"), Reject("x", requeue=False)],
        Category.TRANSIENT: [
            ConnectionError("x"), Reject("x", requeue=True), Retry(exc=Permanent("BAD", "x")),
            SystemExit(3),
        ],
    }  # fmt: skip
    for category, errors in categories.items():
        for error in errors:
            assert examine(POLICY, error, "grade").category is category, error


def test_a_failure_of_the_downstream_counts_for_the_breaker_and_a_refusal_does_not():
    assert examine(POLICY, ConnectionError("x"), "grade").verdict is Verdict.FAILURE
    assert examine(POLICY, Permanent("BAD", "x"), "grade").verdict is Verdict.NEITHER
