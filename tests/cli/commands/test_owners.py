"""`holdfast owners`."""

import json

import pytest
from tests.cli.commands.shop import mail, with_engine


@pytest.fixture
def run(tmp_path, run_on):
    """A function that runs `holdfast owners ...` on a store with a job of ann's; see `run_on`."""
    url = f"sqlite:///{tmp_path / 'work.db'}"
    with_engine(url, lambda engine: engine.enqueue(mail, "hello", owner="ann"))
    return lambda *words: run_on(url, "owners", *words)


def test_limits_are_set_one_by_one_shown_listed_and_cleared(run):
    assert run("limit", "ann", "--concurrency", "5", "--per-minute", "30")[:2] == (
        0, "limits of 'ann': concurrency 5, per_minute 30",
    )  # fmt: skip
    assert run("limit", "ann", "--per-minute", "none", "--waiting", "9")[1] == (
        "limits of 'ann': concurrency 5, waiting 9"
    )
    told = json.loads(run("list", "--json")[1])
    assert told == [
        {
            "owner": "ann", "concurrency": 5, "perSecond": None, "perMinute": None,
            "perDay": None, "waiting": 9, "storageBytes": None,
        }
    ]  # fmt: skip
    assert run("list")[1].splitlines()[1].split("\t")[:2] == ["ann", "5"]
    assert run("list", "--after", "ann", "--json")[1] == "[]"
    assert run("limit", "ann", "--concurrency", "none", "--waiting", "none")[1].endswith(": none")
    assert run("clear", "ann")[1] == "'ann' has no limits of its own any more"
    assert run("clear", "ann")[1] == "'ann' has no limits of its own already"


def test_what_an_owner_uses_is_shown_under_the_limits_of_the_settings(run, monkeypatch):
    monkeypatch.setenv("HOLDFAST_OWNER_CONCURRENCY", "3")
    monkeypatch.setenv("HOLDFAST_OWNER_PER_DAY", "100")
    code, told, _ = run("show", "ann", "--app", "tests.cli.commands.shop:app", "--json")
    shown = json.loads(told)
    assert code == 0
    assert (shown["owner"], shown["ownLimits"]) == ("ann", False)
    assert (shown["concurrency"], shown["perDay"], shown["waiting"]) == (3, 100, None)
    assert (shown["running"], shown["unfinished"], shown["storedBytes"]) == (0, 1, 0)
    table = run("show", "ann", "--app", "tests.cli.commands.shop:app")[1]
    assert "unfinished\t1" in table


@pytest.mark.parametrize(
    "words, line",
    [
        (["limit", "ann", "--concurrency", "0"], "--concurrency must be a whole number"),
        (["limit", "ann", "--waiting", "-3"], "--waiting must be a whole number"),
        (["limit", "ann", "--per-day", "many"], "--per-day must be a whole number"),
        (["limit", "ann", "--storage-bytes", "9" * 30], "storage_bytes must be at most"),
        (["limit", "ann"], "name at least one limit"),
        (["limit", " ", "--waiting", "3"], "OWNER must not be empty"),
    ],
)
def test_bad_input_is_refused_in_a_line(run, words, line):
    code, _, told = run(*words)
    assert code == 2
    assert line in told


def test_a_bad_setting_is_named(run, monkeypatch):
    monkeypatch.setenv("HOLDFAST_OWNER_WAITING", "-1")
    code, _, told = run("show", "ann")
    assert code == 1
    assert "HOLDFAST_OWNER_WAITING must be a whole number" in told
