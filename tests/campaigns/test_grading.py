"""The grading campaign notices what it is there to find; its runs need their own broker."""

import pytest
from campaigns.grading import judge

IDS = {"a": "s1", "b": "s2"}


@pytest.fixture
def shown():
    return {each: {"status": "COMPLETED", "failureReason": None} for each in IDS.values()}


def test_what_is_complete_has_no_findings(shown):
    assert judge(IDS, shown, {"s1": 1, "s2": 1}, {"a": 1, "b": 1}) == []


def test_a_submission_that_is_missing_or_not_completed_is_found(shown):
    del shown["s1"]
    shown["s2"] = {"status": "FAILED", "failureReason": "TIMEOUT"}
    assert judge(IDS, shown, {}, {"a": 1, "b": 1}) == [
        "lost: a is missing",
        "lost: b is FAILED TIMEOUT",
    ]


def test_a_second_result_or_a_second_charge_is_found(shown):
    assert judge(IDS, shown, {"s1": 2, "s2": 1}, {"a": 1, "b": 2}) == [
        "duplicate: a has 2 results",
        "charged: b was charged 2 times",
    ]


def test_a_submission_that_nobody_charged_for_is_found(shown):
    assert judge(IDS, shown, {"s1": 1, "s2": 1}, {"a": 1}) == ["charged: b was charged 0 times"]


def test_a_submission_that_was_not_acknowledged_is_found(shown):
    shown["s3"] = shown["s1"]
    findings = judge(IDS, shown, {"s1": 1, "s2": 1}, {"a": 1, "b": 1})
    assert findings == ["duplicate: s3 was not acknowledged"]
