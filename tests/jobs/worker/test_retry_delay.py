"""How long a job waits before its next attempt."""

from random import Random

import pytest
from tests.support.workers import claim

from holdfast.errors import RetryLater
from holdfast.jobs.declare.app import App
from holdfast.jobs.worker.failure import summarize
from holdfast.jobs.worker.retry_delay import retry_delay
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.policy import RetryPolicy

app = App("a")


@app.job(retry=RetryPolicy(backoff=Exponential(base=10, cap=60, jitter=0.0)))
async def work(ctx): ...


class Throttled(Exception):
    status_code = 429

    def __init__(self, seconds):
        super().__init__("slow down")
        self.retry_after = seconds


def delay(error, attempt=1):
    return retry_delay(
        summarize(error, work.kind, 0.0), claim(attempt=attempt), work.kind, Random(1)
    )


def test_a_transient_error_waits_by_the_backoff():
    assert delay(ConnectionError("x"), attempt=2) == 20


@pytest.mark.parametrize("error", [RetryLater(5e9), Throttled(5e9)])
def test_a_wait_is_at_most_ten_years(error):
    assert 365 * 86400 <= delay(error) <= 3650 * 86400


@pytest.mark.parametrize("asked, seconds", [(3, 10), (30, 30), (86400, 86400)])
def test_a_retry_after_of_the_downstream_replaces_a_shorter_delay(asked, seconds):
    assert delay(Throttled(asked)) == seconds


def test_retry_later_replaces_the_backoff():
    assert delay(RetryLater(0.5)) == 0.5
