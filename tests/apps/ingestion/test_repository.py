"""What attempts and settling write, in whatever order they commit."""

import asyncio

import pytest
from tests.apps.ingestion.world import World

from holdfast_ingestion.repository import NewContent

FOUND = NewContent("New words.", "New", "text/plain", 10, "hash")


async def settle_late(documents, document_id):
    """Commit the failure of the attempt with the token 1, as settling does."""
    values = {
        "id": document_id, "token": 1, "attempts": 3, "error_code": "TIMEOUT",
        "error": "too slow", "processing_metadata": "{}", "finished_at": 1.0,
    }  # fmt: skip
    async with documents.database.transaction() as tx:
        assert await tx.fetch(documents.queries["fail"], values)


async def finish(documents, document_id, found, token):
    values = {"token": token, "attempts": 1, "now": 2.0, "processing_metadata": "{}"}
    async with documents.database.transaction() as tx:
        return await documents.finish(tx, document_id, found, [], values)


@pytest.mark.parametrize("found", [None, FOUND])
def test_a_retry_that_runs_while_the_failure_before_it_is_settled_still_finishes(
    database_url, tmp_path, found
):
    async def scenario():
        async with World(database_url, tmp_path) as world:
            document_id = await world.add(content="Some words.")
            await settle_late(world.documents, document_id)

            assert not await finish(world.documents, document_id, found, token=1)
            assert await finish(world.documents, document_id, found, token=2)
            assert (await world.documents.work_item(document_id)).status == "done"

    asyncio.run(scenario())


def test_a_retry_whose_indexing_fails_keeps_its_text_and_stays_queued(database_url, tmp_path):
    async def scenario():
        async with World(database_url, tmp_path) as world:
            document_id = await world.add(content="Some words.")
            await settle_late(world.documents, document_id)

            await world.documents.keep(document_id, FOUND, 2, 2.0)
            item = await world.documents.work_item(document_id)
            assert (item.status, item.content) == ("queued", "New words.")

    asyncio.run(scenario())
