"""What the pages ask of the database is answered alike on SQLite and PostgreSQL."""

import asyncio

from tests.apps.ingestion.world import World

from holdfast_ingestion.repository import ListFilter


def test_documents_are_filtered_by_a_part_of_their_name_and_shown_in_part(database_url, tmp_path):
    async def scenario():
        async with World(database_url, tmp_path) as world:
            otters = await world.add(content="some words", title="Otter notes")
            await world.add(content="other words", title="Beavers")

            found = await world.documents.page(
                "local", ListFilter(text="oTTer"), before=None, limit=5
            )
            assert [each.id for each in found] == [otters]
            assert await world.documents.excerpt("local", otters, 4) == ("some", 10)
            assert await world.documents.excerpt("other", otters, 4) is None
            for path in ("/documents?q=otter", f"/documents/{otters}", "/search?q=a", "/concepts"):
                assert (await world.client.get(path)).status_code == 200, path

    asyncio.run(scenario())
