"""Opening the store of a command."""

import asyncio

import pytest

from holdfast import UnknownJob
from holdfast.cli import main
from holdfast.cli.store_session import on_store
from holdfast.cli.usage import UsageError
from holdfast.jobs.exceptions import InvalidState


@pytest.mark.parametrize("words", [["jobs", "list"], ["top"], ["dead", "requeue", "--dry-run"]])
def test_a_typo_in_the_address_creates_no_database(words, tmp_path, capsys):
    assert main([*words, "--database", f"sqlite:///{tmp_path}/wrok.db"]) == 2
    assert f"there is no database '{tmp_path}/wrok.db'; name yours with" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_in_a_folder_without_data_nothing_is_created(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_DATABASE_URL", raising=False)
    assert main(["jobs", "list"]) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "error, seen", [(UnknownJob("x"), UsageError), (InvalidState("is complete"), InvalidState)]
)
def test_what_does_not_exist_is_a_mistake_in_the_command(error, seen, tmp_path):
    async def work(engine):
        raise error

    with pytest.raises(seen, match=str(error)):
        on_store(f"sqlite:///{tmp_path}/work.db", work, create=True)


def test_the_result_of_the_work_is_returned(tmp_path):
    async def work(engine):
        await asyncio.sleep(0)
        return (await engine.stats()).dead_letters

    assert on_store(f"sqlite:///{tmp_path}/work.db", work, create=True) == 0
