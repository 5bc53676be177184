"""Declared retention: its rules, and invalid values."""

import pytest

from holdfast.jobs.declare.retention import DOCUMENTS, FOREVER, Retention
from holdfast.jobs.model import JobStatus
from holdfast.jobs.store_values import RetentionRule


def test_documents_are_kept_for_an_hour_or_the_newest_1000_and_failures_for_a_day():
    assert DOCUMENTS.rules("docs.fetch")[:2] == (
        RetentionRule("docs.fetch", JobStatus.COMPLETE, max_age=3600, max_count=1000),
        RetentionRule("docs.fetch", JobStatus.FAILED, max_age=86400),
    )


def test_by_default_dead_letters_stay_until_a_person_decides():
    statuses = [rule.status for rule in Retention().rules("a.b")]
    assert statuses == [JobStatus.COMPLETE, JobStatus.CANCELLED]


def test_without_a_limit_there_is_no_rule():
    assert FOREVER.rules("a.b") == ()


def test_a_count_alone_is_a_rule():
    rules = Retention(complete_for=None, complete_newest=0, cancelled_for=None).rules("a.b")
    assert rules == (RetentionRule("a.b", JobStatus.COMPLETE, max_count=0),)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"complete_for": -1}, "complete_for must be at least 0, got -1"),
        ({"failed_for": "1h"}, "failed_for must be a number, got '1h'"),
        ({"failed_newest": 1.5}, "failed_newest must be a whole number, got 1.5"),
        ({"cancelled_newest": -1}, "cancelled_newest must be at least 0, got -1"),
        ({"on_deleted": "rm"}, "on_deleted must be callable, got 'rm'"),
    ],
)
def test_a_bad_declaration_is_refused_with_field_and_value(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Retention(**options)
