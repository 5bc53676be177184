"""Migrating by hand: what is missing, and the SQL for it."""

import asyncio

import asyncpg
import pytest

from holdfast.cli import main


@pytest.fixture
def url(postgres_server):
    name = postgres_server.create_database()
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


async def execute(url, sql):
    connection = await asyncpg.connect(url)
    await connection.execute(sql)
    await connection.close()


def test_check_says_what_is_missing_until_the_printed_sql_is_applied(url, capsys):
    assert main(["migrate", "--check", "--database", url]) == 1
    assert "missing: migration 1 (baseline)" in capsys.readouterr().out

    assert main(["migrate", "--sql", "--database", url]) == 0
    asyncio.run(execute(url, capsys.readouterr().out))

    assert main(["migrate", "--check", "--database", url]) == 0
    assert "up to date" in capsys.readouterr().out
    assert main(["migrate", "--sql", "--database", url]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("flag", ["--check", "--sql"])
def test_a_file_that_migrates_by_itself_has_no_script(tmp_path, flag, capsys):
    assert main(["migrate", flag, "--database", f"sqlite:///{tmp_path}/work.db"]) == 1
    assert "whenever it is opened" in capsys.readouterr().err
