"""The command line."""

import subprocess
import sys

import pytest

from holdfast.cli import main


def test_the_tour_shows_retries_retry_after_and_the_breaker(capsys):
    assert main(["tour", "--pace", "0.05"]) == 0

    told = capsys.readouterr().out
    assert "the price is 42 (attempts: 3, SUCCESS)" in told
    assert "next in 1.00 s" in told
    assert "HTTP Error 404" in told
    assert "(attempts: 1, PERMANENT)" in told
    assert "circuit CLOSED -> OPEN" in told
    assert "(attempts: 0, BREAKER)" in told
    assert "circuit HALF_OPEN -> CLOSED" in told
    assert "7 calls, 3 succeeded" in told


def test_python_dash_m_is_the_same_command():
    helped = subprocess.run(
        [sys.executable, "-m", "holdfast", "--help"], capture_output=True, text=True, check=True
    )

    assert "tour" in helped.stdout


@pytest.mark.parametrize("pace", ["0", "-1", "fast", "1000", "nan"])
def test_a_bad_pace_is_refused_in_one_line(pace, capsys):
    assert main(["tour", "--pace", pace]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert pace in line
    assert line.endswith("see: holdfast tour --help")


def test_without_a_command_one_line_says_where_the_help_is(capsys):
    assert main([]) == 2
    assert capsys.readouterr().err == "holdfast: Missing command; see: holdfast --help\n"
