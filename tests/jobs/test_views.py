"""Failures that are alike have one normalised message."""

from dataclasses import astuple

import pytest

from holdfast.jobs.views import EVERY_JOB, normalise_error


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
def test_what_varies_from_job_to_job_does_not_tell_failures_apart(one, other):
    assert normalise_error(one) == normalise_error(other)


@pytest.mark.parametrize(
    "one, other",
    [("no memory", "no space"), ("facade is broken", "deface is broken"), ("a b", "a c")],
)
def test_words_do_tell_them_apart(one, other):
    assert normalise_error(one) != normalise_error(other)


def test_the_normalised_message_reads_well():
    message = "page 3 of 'a.pdf' at https://x.example/y"
    assert normalise_error(message) == "page <n> of <value> at <url>"


def test_it_is_bounded_and_stable():
    assert len(normalise_error("x" * 1000)) == 200
    once = normalise_error("word " * 1000)
    assert normalise_error(once) == once
    assert normalise_error("") == ""


def test_the_filter_for_every_job_narrows_nothing():
    assert not any(astuple(EVERY_JOB))
