"""Similar failures have the same normalised message."""

from dataclasses import astuple

import pytest

from holdfast.jobs.views import (
    EVERY_JOB,
    DeadLetterGroup,
    ErrorGroup,
    error_groups,
    normalise_error,
)


@pytest.mark.parametrize(
    "one, other",
    [
        ("page 3 is broken", "page 17 is broken"),
        ("timeout after 1.5 s", "timeout after 30.25 s"),
        ("no file 'a.pdf'", "no file 'b c.pdf'"),
        ('key "x" missing', 'key "yy" missing'),
        (
            "job 123e4567-e89b-12d3-a456-426614174000 lost",
            "job 00000000-0000-0000-0000-0000000000ff lost",
        ),
        ("object at 0x7f00aa", "object at 0x7fffbb"),
        ("digest deadbeef01", "digest cafe00000002"),
        ("GET https://a.example/x?y=1 failed", "GET http://b.example:8080/ failed"),
        ("two  spaces\n\there", "two spaces here"),
    ],
)
def test_ids_and_numbers_do_not_distinguish_failures(one, other):
    assert normalise_error(one) == normalise_error(other)


@pytest.mark.parametrize(
    "one, other",
    [("no memory", "no space"), ("facade is broken", "deface is broken"), ("a b", "a c")],
)
def test_different_messages_are_different_failures(one, other):
    assert normalise_error(one) != normalise_error(other)


def test_the_normalised_message_is_readable():
    message = "page 3 of 'a.pdf' at https://x.example/y"
    assert normalise_error(message) == "page <n> of <value> at <url>"


def test_the_normalised_message_is_bounded_and_stable():
    assert len(normalise_error("x" * 1000)) == 200
    once = normalise_error("word " * 1000)
    assert normalise_error(once) == once
    assert normalise_error("") == ""


def test_the_filter_for_every_job_matches_all():
    assert not any(astuple(EVERY_JOB))


def test_groups_of_several_kinds_with_one_error_become_one():
    found = error_groups(
        [
            DeadLetterGroup("a", "TIMEOUT", "late", 3, 30.0, "a9", 10.0, "a1"),
            DeadLetterGroup("b", "IO_ERROR", "late", 4, 20.0, "b9", 20.0, "b9"),
            DeadLetterGroup("b", "TIMEOUT", "late", 2, 40.0, "b8", 5.0, "b1"),
        ]
    )
    assert found == (
        ErrorGroup("TIMEOUT", "late", 5, ("a", "b"), 5.0, 40.0, ("a9", "a1", "b8", "b1")),
        ErrorGroup("IO_ERROR", "late", 4, ("b",), 20.0, 20.0, ("b9",)),
    )
