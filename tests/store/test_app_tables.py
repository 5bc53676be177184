"""Tables of an app's own on both stores: created with the schema, and committed with jobs."""

import asyncio
import contextlib
import subprocess
import sys

import pytest
from tests.support import notes
from tests.support.notes import add, sql

from holdfast import App, AppTables, Engine
from holdfast.bootstrap import migrate, migration_script, missing_migrations
from holdfast.jobs.engine import StoreEngine
from holdfast.jobs.store_port import StoreUnusable

ALL = ["migration 1 (notes) of app notes", "migration 2 (words) of app notes"]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    """Return the address of a store with its schema, but without tables of apps."""
    if request.param == "sqlite":
        address = f"sqlite:///{tmp_path / 'work.db'}"
        asyncio.run(migrate(address))
        return address
    return request.getfixturevalue("postgres_url")


def app_in(folder, monkeypatch, **texts):
    """Return an app whose package has these migrations for both stores."""
    package = folder / "own_tables"
    for dialect in ("sqlite", "postgres"):
        place = package / "migrations" / dialect
        place.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (place / f"{name}.sql").write_text(text)
    monkeypatch.syspath_prepend(folder)
    return App("own", tables=AppTables("own_tables"))


def test_migrations_of_an_app_are_missing_until_they_are_applied(url):
    async def scenario():
        assert [
            str(each) for each in (await missing_migrations(url, [notes.app])).migrations
        ] == ALL
        version = await migrate(url, [notes.app])
        assert not await missing_migrations(url, [notes.app])
        assert await migration_script(url, [notes.app]) == ""
        assert await migrate(url, [notes.app]) == await migrate(url) == version

    asyncio.run(scenario())


def test_an_engine_works_with_the_tables_that_migrate_created(url):
    state = {}

    @contextlib.asynccontextmanager
    async def lifespan(_):
        yield state["engine"]

    async def scenario():
        await migrate(url, [notes.app])
        async with Engine(url, apps=[notes.app]) as engine:
            state["engine"] = engine
            await add(engine, 1, "to be or not to be")
            await engine.work(until_idle=True)
            words = await engine.database.fetch(sql(engine, "SELECT count(*) FROM {words}"))
            assert words == [(6,)]

    before, notes.app.lifespan = notes.app.lifespan, lifespan
    try:
        asyncio.run(scenario())
    finally:
        notes.app.lifespan = before


def test_a_server_without_the_tables_is_refused_and_a_file_gets_them(url):
    async def scenario():
        async with Engine(url, apps=[notes.app]) as engine:
            await engine.database.fetch(sql(engine, "SELECT 1 FROM {notes}"))

    if url.startswith("sqlite"):
        asyncio.run(scenario())
    else:
        with pytest.raises(StoreUnusable, match=r"app notes are not there.*run: holdfast migrate"):
            asyncio.run(scenario())


def test_a_migration_whose_text_was_changed_is_refused(url, tmp_path, monkeypatch):
    asyncio.run(migrate(url, [app_in(tmp_path, monkeypatch, **{"0001_a": "SELECT 1;"})]))
    changed = app_in(tmp_path, monkeypatch, **{"0001_a": "SELECT 2;"})
    with pytest.raises(StoreUnusable, match=r"migration 1 \(a\) of app own.*another text"):
        asyncio.run(migrate(url, [changed]))


def test_a_migration_that_fails_leaves_nothing_of_any_behind(url, tmp_path, monkeypatch):
    broken = {"0001_a": "CREATE TABLE kept (x integer);", "0002_b": "NONSENSE;"}
    app = app_in(tmp_path, monkeypatch, **broken)

    async def scenario():
        with pytest.raises(Exception, match=r"(?i)syntax"):
            await migrate(url, [app])
        assert len((await missing_migrations(url, [app])).migrations) == 2

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "files, line",
    [
        ({}, "no folder migrations"),
        ({"0002_late": "SELECT 1;"}, "0002_late.sql must be called 0001_name.sql"),
        ({"first": "SELECT 1;"}, "first.sql must be called 0001_name.sql"),
        ({"0001_it's": "SELECT 1;"}, "must be called"),
        ({"0001_a": "create table if not exists holdfast_mine (x integer);"}, "Holdfast's own"),
        ({"0001_a": 'CREATE UNLOGGED TABLE "holdfast_mine" (x integer);'}, "Holdfast's own"),
        ({"0001_a": "CREATE OR REPLACE VIEW holdfast.mine AS SELECT 1;"}, "Holdfast's own"),
    ],
)
def test_wrong_migrations_are_refused_before_anything_is_opened(
    url, tmp_path, monkeypatch, files, line
):
    with pytest.raises(StoreUnusable, match=line):
        Engine(url, apps=[app_in(tmp_path, monkeypatch, **files)])


def test_a_package_that_does_not_exist_is_named(url):
    with pytest.raises(StoreUnusable, match="there is no package 'no_such_package'"):
        Engine(url, apps=[App("own", tables=AppTables("no_such_package"))])


def test_tables_must_be_app_tables():
    with pytest.raises(TypeError, match="tables"):
        App("own", tables="own_tables")


def test_an_engine_on_a_given_store_has_the_tables_too(tmp_path):
    from holdfast.store.sqlite.store import SQLiteStore

    async def scenario():
        async with StoreEngine(SQLiteStore(tmp_path / "work.db"), [notes.app]) as engine:
            assert await engine.database.fetch("SELECT count(*) FROM notes") == [(0,)]

    asyncio.run(scenario())


@pytest.mark.parametrize("commits", [1, 7, 23])
def test_a_killed_process_leaves_no_row_without_its_job_and_no_job_without_its_row(url, commits):
    asyncio.run(migrate(url, [notes.app]))
    command = [sys.executable, "-m", "tests.support.notes", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        seen = [int(process.stdout.readline()) for _ in range(commits)]
        process.kill()

    async def scenario():
        async with Engine(url, apps=[notes.app]) as engine:
            rows = await engine.database.fetch(sql(engine, "SELECT id FROM {notes} ORDER BY id"))
            jobs = [job async for job in each_job(engine)]
            assert sorted(jobs) == [number for (number,) in rows]
            assert set(seen) <= set(jobs)

    asyncio.run(scenario())


async def each_job(engine):
    cursor = None
    while True:
        page = await engine.list(cursor=cursor, limit=100)
        for job in page.jobs:
            yield int((await engine.get(job.id)).arguments)
        cursor = page.next_cursor
        if cursor is None:
            return
