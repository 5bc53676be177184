"""Files that belong to no document are deleted, and no other."""

import asyncio

from tests.apps.ingestion.world import World

from holdfast_ingestion.file_cleanup import sweep


def test_files_without_a_document_are_deleted(sqlite_url, tmp_path):
    async def scenario():
        async with World(sqlite_url, tmp_path) as world:
            files = world.app.files
            answer = await world.client.post(
                "/v3/documents", files={"file": ("a.html", b"<p>words</p>", "text/html")}
            )
            kept = f"documents/{answer.json()['id']}"
            with files.draft() as draft:
                draft.publish(f"documents/{'0' * 32}")
                # Its row may be about to be stored.
                assert await sweep(files, world.documents) == 0
            assert await sweep(files, world.documents) == 1
            assert [each.name for each in files.list("documents")] == [kept]

    asyncio.run(scenario())


def test_the_file_of_a_twin_is_not_kept(sqlite_url, tmp_path):
    async def scenario():
        async with World(sqlite_url, tmp_path) as world:
            for _ in range(2):
                file = ("a.html", b"<p>words</p>", "text/html")
                await world.client.post("/v3/documents", files={"file": file})
            assert len(list(world.app.files.list("documents"))) == 1

    asyncio.run(scenario())
