"""Migrating by hand: what is missing, and the SQL for it."""

import asyncio

import apsw
import asyncpg
import pytest

from holdfast.cli import main


async def execute_in_postgres(url, sql):
    connection = await asyncpg.connect(url)
    await connection.execute(sql)
    await connection.close()


def execute_in_sqlite(url, sql):
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    connection.execute(sql)
    connection.close()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    """Return the URL of an empty database, and a function that executes SQL there."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'work.db'}", execute_in_sqlite
        return
    server = request.getfixturevalue("postgres_server")
    name = server.create_database()
    yield server.url(name), lambda url, sql: asyncio.run(execute_in_postgres(url, sql))
    server.drop_database(name)


def test_check_lists_missing_migrations_until_the_printed_sql_is_applied(database, capsys):
    url, execute = database
    assert main(["migrate", "--check", "--database", url]) == 1
    assert "missing: migration 1 (baseline)" in capsys.readouterr().out

    assert main(["migrate", "--sql", "--database", url]) == 0
    execute(url, capsys.readouterr().out)

    assert main(["migrate", "--check", "--database", url]) == 0
    assert "up to date" in capsys.readouterr().out
    assert main(["migrate", "--sql", "--database", url]) == 0
    assert capsys.readouterr().out == ""


def test_the_tables_of_a_named_app_are_checked_printed_and_migrated(database, capsys):
    url, execute = database
    named = ["migrate", "tests.support.notes:app", "--database", url]
    assert main(["migrate", "--database", url]) == 0
    assert main([*named, "--check"]) == 1
    assert "missing: migration 1 (notes) of app notes" in capsys.readouterr().out

    assert main([*named, "--sql"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("CREATE TABLE notes") == 2
    execute(url, printed)
    assert main([*named, "--check"]) == 0
    assert main(named) == 0
    assert "up to date" in capsys.readouterr().out


def test_an_app_that_does_not_exist_is_a_mistake_in_the_command(tmp_path, capsys):
    url = f"sqlite:///{tmp_path / 'work.db'}"
    assert main(["migrate", "no_such_app", "--database", url]) == 2
    assert "no app called 'no_such_app'" in capsys.readouterr().err


def test_only_one_of_check_and_sql_can_be_asked_for(tmp_path, capsys):
    database = f"sqlite:///{tmp_path / 'work.db'}"
    assert main(["migrate", "--check", "--sql", "--database", database]) == 2
    assert "not allowed with" in capsys.readouterr().err
