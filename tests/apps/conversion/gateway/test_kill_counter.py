"""Counting the killed conversions of a file."""

import pytest

from holdfast_conversion.gateway.kill_counter import KillCounter
from holdfast_conversion.gateway.rejections import Reason, Rejection


def end(killings, file, reason):
    """End a conversion with `reason` (None: success); return why the file is refused, if it is."""
    try:
        with killings.counted(file):
            if reason is not None:
                raise Rejection(reason)
    except Rejection as refusal:
        return refusal.reason
    return None


def test_the_third_in_a_row_is_the_files_doing():
    killings = KillCounter()

    ends = [end(killings, "a", Reason.KILLED) for _ in range(4)]

    assert ends == [Reason.KILLED] * 2 + [Reason.KILLED_AGAIN] * 2
    assert end(killings, "b", Reason.KILLED) is Reason.KILLED


@pytest.mark.parametrize("between", [None, Reason.DAMAGED, Reason.CRASHED])
def test_a_finished_conversion_resets_the_count(between):
    killings = KillCounter()
    ends = [end(killings, "a", each) for each in (Reason.KILLED, Reason.KILLED, between)]

    assert ends == [Reason.KILLED, Reason.KILLED, between]
    assert end(killings, "a", Reason.KILLED) is Reason.KILLED


@pytest.mark.parametrize("between", [Reason.BUSY, Reason.STOPPED])
def test_one_that_never_came_to_its_end_does_not(between):
    killings = KillCounter()
    for each in (Reason.KILLED, Reason.KILLED, between):
        end(killings, "a", each)

    assert end(killings, "a", Reason.KILLED) is Reason.KILLED_AGAIN


def test_no_more_files_are_remembered_than_there_is_room_for():
    killings = KillCounter()
    for _ in range(2):
        end(killings, "first", Reason.KILLED)
    for number in range(1024):
        end(killings, str(number), Reason.KILLED)

    assert end(killings, "first", Reason.KILLED) is Reason.KILLED
    assert end(killings, "1023", Reason.KILLED) is Reason.KILLED
    assert end(killings, "1023", Reason.KILLED) is Reason.KILLED_AGAIN


@pytest.mark.parametrize(
    "reason, kept",
    [
        (Reason.DAMAGED, True),
        (Reason.OUT_OF_MEMORY, True),
        (Reason.CRASHED, False),
        (Reason.KILLED, False),
        (Reason.KILLED_AGAIN, False),
        (Reason.BODY_SLOW, False),
        (Reason.BUSY, False),
        (Reason.SLOW, False),
    ],
)
def test_only_failures_caused_by_the_file_are_cached(reason, kept):
    assert Rejection(reason).is_kept is kept
