"""Only files that no job needs are deleted."""

import asyncio
from types import SimpleNamespace

import pytest

from holdfast import Engine
from holdfast.http import HttpSettings, create_app
from holdfast.testing import VirtualClock
from holdfast.testing.downstream import ScriptedDownstream, ok, status
from holdfast_conversion.app import Conversion
from holdfast_conversion.file_cleanup import delete_files, sweep
from holdfast_conversion.file_names import pdf_name, xml_name
from holdfast_conversion.job_values import ConvertArgs
from holdfast_conversion.service_settings import ConversionSettings

TTL = 3600.0
HTTP = HttpSettings(secret_key="k" * 16, admin_token="t" * 16)


class World:
    def __init__(self, tmp_path, url):
        self.service = Conversion(ConversionSettings(files=tmp_path / "files", gateway_url=url))
        self.files = self.service.files
        self.files.prepare()
        self.url = f"sqlite:///{tmp_path / 'work.db'}"

    def run(self, scenario):
        async def live():
            async with Engine(self.url, apps=[self.service.app]) as engine:
                state = create_app(engine, [self.service], HTTP).state.server
                return await scenario(engine, state)

        return asyncio.run(live())

    def write(self, name):
        with self.files.draft() as draft:
            draft.write(b"x")
            draft.publish(name)

    async def job(self, engine, name):
        self.write(pdf_name(name))
        await engine.enqueue(
            self.service.convert, ConvertArgs(pdf_name(name), "text", 1, ""), id=name
        )

    def names(self):
        folders = ("uploads", "results")
        return sorted(each.name for folder in folders for each in self.files.list(folder))


@pytest.fixture
def gateway():
    with ScriptedDownstream() as server:
        yield server


@pytest.fixture
def world(tmp_path, gateway):
    return World(tmp_path, gateway.url)


def test_files_without_a_job_are_deleted_unless_they_are_locked(world):
    async def scenario(engine, state):
        world.write(pdf_name("orphan"))
        world.write(xml_name("orphan", 1))
        with world.files.draft() as draft:
            draft.publish(pdf_name("coming"))
            assert await sweep(world.files, state, TTL) == 2
            assert world.names() == [pdf_name("coming")]
        assert await sweep(world.files, state, TTL) == 1

    world.run(scenario)
    assert world.names() == []


def test_what_an_unfinished_job_needs_is_kept(world):
    async def scenario(engine, state):
        await world.job(engine, "waiting")
        world.write(xml_name("waiting", 1))
        return await sweep(world.files, state, 0.0)

    assert world.run(scenario) == 0
    assert world.names() == [xml_name("waiting", 1), pdf_name("waiting")]


def test_of_a_complete_job_the_published_result_alone_is_kept(world, gateway):
    gateway.script(ok(b"<a/>", headers={"Content-Type": "application/xml"}))

    async def scenario(engine, state):
        await world.job(engine, "done")
        await engine.work(until_idle=True)
        world.write(xml_name("done", 7))
        await sweep(world.files, state, TTL, since=state.clock.wall())
        kept = world.names()
        await sweep(world.files, state, TTL)
        narrowed = world.names()
        await sweep(world.files, state, 0.0, since=state.clock.wall())
        return kept, narrowed

    kept, narrowed = world.run(scenario)
    assert kept == [xml_name("done", 1), pdf_name("done")]
    assert narrowed == [xml_name("done", 1)]
    assert world.names() == []


def test_the_pdf_of_a_failed_job_is_kept_for_a_retry_until_its_time_is_over(world, gateway):
    gateway.script(status(400))

    async def scenario(engine, state):
        await world.job(engine, "failed")
        await world.job(engine, "given-up")
        await engine.cancel("given-up")
        await engine.work(until_idle=True)
        await sweep(world.files, state, TTL)
        kept = world.names()
        await sweep(world.files, state, 0.0)
        with pytest.raises(Exception, match="no longer there") as refused:
            await engine.retry("failed")
        return kept, refused.value.code

    kept, code = world.run(scenario)
    assert kept == [pdf_name("failed")]
    assert code == "FILE_NOT_FOUND"
    assert world.names() == []


def test_a_result_that_was_published_while_its_job_was_removed_is_deleted_soon(world, gateway):
    """Each result is looked at once, when it is five minutes old."""
    gateway.script(ok(b"<a/>", headers={"Content-Type": "application/xml"}))

    async def scenario(engine, state):
        await world.job(engine, "done")
        await world.job(engine, "removed")
        await engine.cancel("removed")
        await engine.delete([await engine.get("removed")])
        world.write(xml_name("removed", 1))
        await engine.work(until_idle=True)
        later = SimpleNamespace(engine=engine, clock=VirtualClock(state.clock.wall()))
        found = []
        for _ in range(7):
            before = later.clock.wall()
            later.clock.advance(60)
            found.append(await sweep(world.files, later, TTL, since=before))
        return found

    found = world.run(scenario)
    assert sum(found[:4]) == 0
    assert sum(found[4:]) == 1
    assert xml_name("done", 1) in world.names()
    assert xml_name("removed", 1) not in world.names()


def test_what_retention_deletes_takes_its_files_along(world):
    for name in (pdf_name("old"), xml_name("old", 2), pdf_name("other")):
        world.write(name)

    delete_files(world.files, "old", f'{{"file": "{xml_name("old", 2)}"}}')
    delete_files(world.files, "none", None)

    assert world.names() == [pdf_name("other")]
