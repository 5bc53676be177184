"""Errors are stored as text that every database accepts."""

from holdfast.errors import ErrorCode
from holdfast.jobs.model import JobError
from holdfast.store.error_columns import error_columns


def test_an_error_becomes_its_code_its_message_and_its_group():
    error = JobError(ErrorCode.GW_5XX, "answer 502 after 17 s")
    assert error_columns(error) == ("GW_5XX", "answer 502 after 17 s", "answer <n> after <n> s")


def test_characters_that_a_database_refuses_are_replaced():
    _, message, group = error_columns(JobError(ErrorCode.UNKNOWN, "bad \x00 \ud800"))
    assert message == "bad \ufffd ?"
    assert group == message
