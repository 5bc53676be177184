"""Tracebacks as text: from the handler on, bounded, redacted, and never an error of their own."""

import pytest

from holdfast.jobs.worker.traceback_text import (
    MOST_BYTES,
    Tracebacks,
    format_traceback,
    shorten,
)


def caught(raise_it):
    try:
        raise_it()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def fail():
    raise ValueError("no")


def fail_twice():
    try:
        fail()
    except ValueError as error:
        raise KeyError("neither") from error


def in_the_worker():
    """Return a function that calls `fail` as a module of the worker would."""
    names = {"__name__": "holdfast.jobs.worker.invented", "fail": fail}
    exec("def call():\n    fail()", names)
    return names["call"]


def test_it_names_the_lines_and_the_causes():
    text = format_traceback(caught(fail_twice))
    assert text.startswith("Traceback (most recent call last):")
    assert "in fail\n" in text
    assert "direct cause" in text
    assert text.endswith("KeyError: 'neither'")


def test_frames_of_the_worker_at_its_beginning_are_left_out():
    error = caught(in_the_worker())
    error.__traceback__ = error.__traceback__.tb_next  # the frame of `caught`
    text = format_traceback(error)
    assert "in call" not in text
    assert "in fail" in text


def test_the_last_frame_stays_even_if_it_is_the_workers():
    names = {"__name__": "holdfast.jobs.worker.invented"}
    exec("def call():\n    raise OSError('disk')", names)
    error = caught(names["call"])
    error.__traceback__ = error.__traceback__.tb_next
    assert "in call" in format_traceback(error)


def test_an_exception_that_was_never_raised_has_none():
    assert format_traceback(ValueError("no")) is None


def test_an_exception_that_cannot_be_formatted_has_none():
    class Hostile(Exception):
        def __getattribute__(self, name):
            raise SystemExit(name)

    def hostile():
        raise Hostile

    assert format_traceback(caught(hostile)) is None


def test_endless_recursion_is_formatted_in_bounds():
    def down():
        down()

    text = format_traceback(caught(down))
    assert "RecursionError" in text
    assert len(text.encode()) <= MOST_BYTES


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f600", "\ud800"])
def test_a_long_text_keeps_its_beginning_and_its_end(letter):
    text = shorten("begins " + letter * 50_000 + " ends")
    assert len(text.encode()) <= MOST_BYTES
    assert text.startswith("begins ")
    assert text.endswith(" ends")
    assert "bytes and more are left out" in text


def test_a_short_text_is_left_as_it_is():
    assert shorten("short \ud800") == "short \ud800"


def test_tracebacks_are_kept_or_not():
    error = caught(fail)
    assert Tracebacks(True).text_of(error) == format_traceback(error)
    assert Tracebacks(False).text_of(error, "from a child") is None
    assert Tracebacks(True).text_of(None) is None
    assert Tracebacks(True).text_of(error, "from a child") == "from a child"


def test_a_function_says_what_may_be_kept():
    hide = Tracebacks(lambda text: text.replace("ValueError", "***"))
    assert "***: no" in hide.text_of(caught(fail))
    assert hide.text_of(None, "ValueError") == "***"
    assert not hide.whole
    assert Tracebacks(lambda text: "").text_of(caught(fail)) is None
    assert len(Tracebacks(lambda text: text * 1000).text_of(caught(fail))) <= MOST_BYTES


def test_a_traceback_is_not_kept_if_the_function_fails(caplog):
    assert Tracebacks(lambda text: 1 / 0).text_of(caught(fail)) is None
    assert "the function that redacts it failed" in caplog.text
