"""Progress on standard error."""

import sys

from holdfast.cli.progress import ProgressLine
from holdfast.testing import VirtualClock


def test_what_takes_less_than_a_second_shows_nothing(capsys):
    with ProgressLine("requeued", 10, clock=VirtualClock()) as progress:
        progress.update(5)
    assert capsys.readouterr().err == ""


def test_without_a_terminal_there_is_a_line_every_five_seconds(capsys):
    clock = VirtualClock()
    with ProgressLine("requeued", 10, clock=clock) as progress:
        for done in (1, 2, 3):
            clock.advance(2.0)
            progress.update(done)
        clock.advance(3.0)
        progress.update(9)
    assert capsys.readouterr().err.splitlines() == [
        "holdfast: requeued 1 of 10",
        "holdfast: requeued 9 of 10",
    ]


def test_a_total_that_is_not_known_is_left_out(capsys):
    clock = VirtualClock()
    with ProgressLine("counted", None, clock=clock) as progress:
        clock.advance(2.0)
        progress.update(500)
    assert capsys.readouterr().err == "holdfast: counted 500\n"


def test_a_terminal_gets_a_bar_that_is_removed_at_the_end(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    clock = VirtualClock()
    with ProgressLine("requeued", 10, clock=clock) as progress:
        clock.advance(2.0)
        progress.update(4)
        progress.update(7)
    shown = capsys.readouterr().err
    assert "requeued" in shown
    assert "7/10" in shown
