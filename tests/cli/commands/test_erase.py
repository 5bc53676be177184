"""`holdfast erase`."""

import json

import pytest
from tests.cli.commands.shop import mail, with_engine

from holdfast import App

APP = "tests.cli.commands.shop:app"
other = App("other")


@pytest.fixture
def run(tmp_path, run_on):
    """A function that runs `holdfast erase ...` on a store with a job of ann's; see `run_on`."""
    url = f"sqlite:///{tmp_path / 'work.db'}"
    with_engine(url, lambda engine: engine.enqueue(mail, "hello", owner="ann"))
    return lambda *words: run_on(url, "erase", *words)


def test_it_says_what_was_deleted(run):
    code, told, _ = run("ann", APP, "--yes")
    assert (code, told) == (0, "everything of 'ann' is deleted: jobs 1, webhooks 0")

    _, told, _ = run("ann", APP, "--yes", "--json")
    assert json.loads(told) == {"owner": "ann", "jobs": 0, "webhooks": 0, "data": {}}


def test_without_yes_nothing_is_deleted(run):
    code, told, error = run("ann", APP)

    assert (code, told) == (2, "")
    assert "--yes" in error
    assert "jobs 1" in run("ann", APP, "--yes")[1]


def test_a_dry_run_counts_and_deletes_nothing(run):
    for _ in range(2):
        code, told, _ = run("ann", APP, "--dry-run")
        assert (code, told) == (
            0, "would delete of 'ann': jobs 1, webhooks 0, and what the apps keep"
        )  # fmt: skip

    _, told, _ = run("ann", APP, "--dry-run", "--json")
    assert json.loads(told) == {"owner": "ann", "jobs": 1, "webhooks": 0, "dryRun": True}


@pytest.mark.parametrize("words", [["--yes"], ["--dry-run"]])
def test_kinds_that_no_app_declares_are_named_and_nothing_is_deleted(run, words):
    code, told, error = run("ann", "tests.cli.commands.test_erase:other", *words)

    assert (code, told) == (2, "")
    assert "shop.mail" in error
    assert "jobs 1" in run("ann", APP, "--yes")[1]
