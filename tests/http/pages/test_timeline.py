"""A job's history on its page."""

from dataclasses import replace

from holdfast.errors import ErrorCode
from holdfast.http.pages.timeline import lines_of, steps_of
from holdfast.jobs.history import Attempt, JobEvent
from holdfast.jobs.model import AttemptOutcome, EventName, JobError


def attempt(number, at, outcome=None, error=None, wait=None):
    ended = None if outcome is None else at + 0.5
    found = None if error is None else JobError(ErrorCode.GW_5XX, error)
    took = None if outcome is None else 0.5
    return Attempt("j", number, number, "w", at, ended, took, outcome, found, wait)


def event(sequence, name, at, **fields):
    return JobEvent(sequence, "j", "demo.grind", "o", name, at, fields.pop("attempt", 1), **fields)


def test_attempts_are_in_order_with_errors_durations_and_delays():
    steps = steps_of(
        [
            attempt(1, 10, AttemptOutcome.RETRY, "It broke.", 5.0),
            attempt(2, 20, AttemptOutcome.COMPLETE),
        ],
        [],
    )

    first, second = steps
    assert (first.title, first.outcome, first.look) == ("Attempt 1", "Failed", "failed")
    assert (first.error, first.code, first.took, first.wait) == ("It broke.", "GW_5XX", 0.5, 5.0)
    assert (second.outcome, second.look, second.wait) == ("Succeeded", "done", None)


def test_the_running_attempt_is_marked():
    (step,) = steps_of([attempt(1, 10)], [])

    assert (step.outcome, step.look, step.took) == ("Running now", "running", None)


def test_manual_actions_are_shown_between_the_attempts():
    steps = steps_of(
        [attempt(1, 10, AttemptOutcome.FAILED, "No."), attempt(1, 30, AttemptOutcome.COMPLETE)],
        [event(2, EventName.MANUAL_RETRY, 20), event(3, EventName.EXPEDITED, 25)],
    )

    titles = ["Attempt 1", "Retried by hand", "Retry now requested", "Attempt 1"]
    assert [step.title for step in steps] == titles


def test_every_event_has_a_label():
    lines = lines_of([event(number, name, number) for number, name in enumerate(EventName)])

    assert all(line.text and "_" not in line.text for line in lines)


def test_an_event_carries_its_code_and_its_duration():
    (line,) = lines_of(
        [event(1, EventName.RETRY, 5, duration_ms=250.0, error_code=ErrorCode.GW_TIMEOUT)]
    )

    assert (line.code, line.took, line.attempt) == ("GW_TIMEOUT", 0.25, 1)


def test_a_traceback_is_part_of_a_step_only_for_operators():
    failed = replace(attempt(1, 10, AttemptOutcome.FAILED, "No."), traceback="Traceback: No.")
    plain = attempt(2, 20, AttemptOutcome.COMPLETE)

    assert [step.traceback for step in steps_of([failed, plain], [])] == ["", ""]
    shown = steps_of([failed, plain], [], tracebacks=True)
    assert [step.traceback for step in shown] == ["Traceback: No.", ""]
