"""The documents of an owner are deleted with their files and jobs."""

import asyncio

from tests.apps.ingestion.world import World


def test_documents_files_and_jobs_of_an_owner_are_deleted_and_no_others(database_url, tmp_path):
    async def main():
        async with World(database_url, tmp_path) as world:
            ann, ben = await world.with_key("acme", "ann"), await world.with_key("acme", "ben")
            async with world.working():
                done = await world.add(ann, content="plain words of ann")
                await world.engine.wait(f"doc-{done}")
            await world.add(ann, content="<p>page of ann</p>", type="html")
            kept = await world.add(ben, content="<p>page of ben</p>", type="html")
            assert len(list(world.app.files.list("documents"))) == 2

            erased = await world.engine.erase("key:4:acme:ann")

            assert erased.data == {"ingestion.documents": 2}
            assert [each.name for each in world.app.files.list("documents")] == [
                f"documents/{kept}"
            ]
            listed = (await ann.get("/v3/documents")).json()["documents"]
            assert [each["id"] for each in listed] == [kept]
            assert [job.id for job in (await world.engine.list()).jobs] == [f"doc-{kept}"]
            again = await world.engine.erase("key:4:acme:ann")
            assert again.data == {"ingestion.documents": 0}

    asyncio.run(main())
