"""Messages: what is sent arrives, and nothing that a child sends is trusted."""

import json
from dataclasses import replace

import pytest
from tests.support.workers import claim

from holdfast.children import BrokenFrame
from holdfast.errors import ErrorCode, RetryLater
from holdfast.jobs.declare.app import App
from holdfast.jobs.worker.failure import of_code, summarize
from holdfast.jobs.worker.isolation.messages import (
    dump_claim,
    dump_failure,
    load_claim,
    load_failure,
    load_progress,
)
from holdfast.jobs.worker.traceback_text import MOST_BYTES

app = App("a")


@app.job()
async def work(ctx): ...


def test_a_claim_is_transmitted_without_its_permit():
    given = claim(owner="ann", meta="{}", deadline_at=5.0, arguments="[1]")
    assert load_claim(json.loads(json.dumps(dump_claim(given)))) == given


@pytest.mark.parametrize(
    "failure",
    [
        of_code(ErrorCode.MEMORY_ERROR),
        summarize(RetryLater(7), work.kind, 0.0),
        summarize(TimeoutError("slow"), work.kind, 0.0),
        replace(of_code(ErrorCode.UNKNOWN), traceback="Traceback:\n  é"),
    ],
)
def test_a_failure_is_transmitted(failure):
    assert load_failure(json.loads(json.dumps(dump_failure(failure)))) == failure


def test_a_traceback_from_a_child_is_not_trusted():
    assert load_failure({**GOOD, "traceback": 7}).traceback is None
    assert len(load_failure({**GOOD, "traceback": "x" * 10**6}).traceback) <= MOST_BYTES


GOOD = dump_failure(of_code(ErrorCode.UNKNOWN, "x"))


@pytest.mark.parametrize(
    "fields",
    [
        None, [], {}, {**GOOD, "code": "no such"}, {**GOOD, "category": 7},
        {**GOOD, "after": "1"}, {**GOOD, "after": -1}, {**GOOD, "retry_after": float("nan")},
        {**GOOD, "after": True},
    ],
)  # fmt: skip
def test_a_malformed_failure_is_refused(fields):
    with pytest.raises(BrokenFrame):
        load_failure(fields)


def test_the_text_of_a_failure_is_cleaned():
    read_back = load_failure({**GOOD, "message": "a\nb\0" + "x" * 9999, "status": "503"})
    assert read_back.message.startswith("a b")
    assert len(read_back.message) == 500
    assert read_back.diagnosis.status is None


def test_progress_is_checked():
    assert load_progress([None, "half\nway"]) == (None, "half way")
    assert load_progress([1, None]) == (1, None)
    for bad in (None, [1], [2, None], ["1", None], [True, None], [float("nan"), None]):
        with pytest.raises(BrokenFrame):
            load_progress(bad)
