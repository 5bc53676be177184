"""`holdfast intake`: pause, resume, state."""

import json

import pytest


@pytest.fixture
def run(tmp_path, run_on):
    """A function that runs `holdfast intake ...` and returns the exit code and what it printed."""
    url = f"sqlite:///{tmp_path / 'work.db'}"
    run_on(url, "migrate")
    return lambda *words: run_on(url, "intake", *words)


def test_a_pause_is_shown_until_it_is_resumed(run):
    assert run("state") == (0, "the intake is open", "")
    code, told, _ = run("pause", "--reason", "the disk is replaced")
    assert code == 0
    assert told.startswith("the intake is paused since 20")
    assert told.endswith("Z: the disk is replaced")
    assert run("state")[1] == told
    shown = json.loads(run("state", "--json")[1])
    assert (shown["paused"], shown["reason"]) == (True, "the disk is replaced")

    assert run("resume")[1] == "the intake is open again"
    assert run("resume")[1] == "the intake was not paused"
    assert json.loads(run("state", "--json")[1]) == {"paused": False}


def test_a_reason_of_two_lines_is_refused(run):
    code, _, error = run("pause", "--reason", "two\nlines")

    assert code == 2
    assert "--reason" in error
