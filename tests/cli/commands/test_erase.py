"""`holdfast erase`."""

import asyncio
import json

import pytest

from holdfast import App, Engine, JobContext
from holdfast.cli import main

app = App("shop")
other = App("other")


@app.job()
async def sell(_ctx: JobContext) -> None: ...


@pytest.fixture
def run(tmp_path, capsys):
    """A function that runs `holdfast erase ...` and returns the exit code and what it printed."""
    url = f"sqlite:///{tmp_path / 'work.db'}"

    async def enqueue():
        async with Engine(url, apps=[app]) as engine:
            await engine.enqueue(sell, owner="ann")

    asyncio.run(enqueue())

    def call(*words):
        code = main(["erase", *words, "--database", url])
        printed = capsys.readouterr()
        return code, printed.out.strip(), printed.err.strip()

    return call


def test_it_says_what_was_deleted(run):
    code, told, _ = run("ann", "tests.cli.commands.test_erase:app", "--yes")
    assert (code, told) == (0, "everything of 'ann' is deleted: jobs 1, webhooks 0")

    _, told, _ = run("ann", "tests.cli.commands.test_erase:app", "--yes", "--json")
    assert json.loads(told) == {"owner": "ann", "jobs": 0, "webhooks": 0, "data": {}}


def test_without_yes_nothing_is_deleted(run):
    code, told, error = run("ann", "tests.cli.commands.test_erase:app")

    assert (code, told) == (2, "")
    assert "--yes" in error
    assert "jobs 1" in run("ann", "tests.cli.commands.test_erase:app", "--yes")[1]


def test_a_dry_run_counts_and_deletes_nothing(run):
    for _ in range(2):
        code, told, _ = run("ann", "tests.cli.commands.test_erase:app", "--dry-run")
        assert (code, told) == (
            0, "would delete of 'ann': jobs 1, webhooks 0, and what the apps keep"
        )  # fmt: skip

    _, told, _ = run("ann", "tests.cli.commands.test_erase:app", "--dry-run", "--json")
    assert json.loads(told) == {"owner": "ann", "jobs": 1, "webhooks": 0, "dryRun": True}


@pytest.mark.parametrize("words", [["--yes"], ["--dry-run"]])
def test_kinds_that_no_app_declares_are_named_and_nothing_is_deleted(run, words):
    code, told, error = run("ann", "tests.cli.commands.test_erase:other", *words)

    assert (code, told) == (2, "")
    assert "shop.sell" in error
    assert "jobs 1" in run("ann", "tests.cli.commands.test_erase:app", "--yes")[1]
