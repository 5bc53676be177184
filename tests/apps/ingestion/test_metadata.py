"""Metadata: what is refused, and what an earlier release has stored."""

import asyncio
import json
import random

import pytest
from tests.apps.ingestion.world import World

from holdfast.http import ApiError
from holdfast_ingestion.metadata import (
    MOST_LEVELS,
    checked_metadata,
    parsed_metadata,
    stored_metadata,
)


def nested(levels):
    """Return JSON of an object that is nested `levels` deep, itself included."""
    return '{"deep": ' + "[" * (levels - 1) + "]" * (levels - 1) + ', "team": "blue"}'


@pytest.mark.parametrize(
    ("levels", "as_form"),
    [(MOST_LEVELS + 1, False), (256, False), (900, False), (MOST_LEVELS + 1, True), (5000, True)],
)
def test_metadata_that_is_nested_too_deeply_is_refused_with_the_limit(
    sqlite_url, tmp_path, levels, as_form
):
    async def scenario():
        async with World(sqlite_url, tmp_path) as world:
            if as_form:
                answer = await world.client.post(
                    "/v3/documents",
                    files={"file": ("a.txt", b"words", "text/plain")},
                    data={"metadata": nested(levels)},
                )
            else:
                body = f'{{"content": "words", "metadata": {nested(levels)}}}'
                answer = await world.client.post("/v3/documents", content=body)
            assert answer.status_code == 422, answer.text
            assert "20 levels" in answer.json()["error"]["message"]

    asyncio.run(scenario())


def test_twenty_levels_are_taken_in():
    assert checked_metadata(json.loads(nested(MOST_LEVELS)))["team"] == "blue"
    assert checked_metadata({"brackets": '[{"' * 40}) == {"brackets": '[{"' * 40}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_not_finite_is_refused(number):
    with pytest.raises(ApiError, match="must be finite") as refused:
        checked_metadata(parsed_metadata(f'{{"size": [{number}]}}'))
    assert refused.value.status == 422


def test_what_was_stored_before_the_limit_does_not_break_the_list(database_url, tmp_path):
    """Also metadata that was stored so deep that Python cannot parse it."""

    async def scenario():
        async with World(database_url, tmp_path) as world:
            ids = [await world.add(content=f"Text {n}.") for n in range(3)]
            table = "ingestion_documents" if is_sqlite(world) else "ingestion.documents"
            stored = [nested(300), nested(5000), '{"size": NaN}']
            async with world.engine.database.transaction() as tx:
                for document_id, text in zip(ids, stored, strict=True):
                    await tx.fetch(
                        f"UPDATE {table} SET metadata = :text WHERE id = :id",
                        {"text": text, "id": document_id},
                    )
            listed = (await world.client.get("/v3/documents")).json()["documents"]
            found = {each["id"]: each["metadata"] for each in listed}
            expected = [{"json": stored[0]}, {"json": stored[1]}, {"size": None}]
            assert [found[each] for each in ids] == expected
            page = await world.client.get("/documents", headers={"accept": "text/html"})
            assert page.status_code == 200

    asyncio.run(scenario())


def is_sqlite(world):
    return world.engine.database.dialect == "sqlite"


def test_shallow_metadata_is_read_as_it_was_given():
    assert stored_metadata('{"a": {"b": [1]}}') == {"a": {"b": [1]}}


def test_a_value_may_be_as_long_as_the_limit_allows(database_url, tmp_path):
    """It is random, so that no database can compress it."""
    note = random.Random(1).randbytes(15 * 512).hex()

    async def scenario():
        async with World(database_url, tmp_path) as world:
            document_id = await world.add(content="words", metadata={"note": note})
            found = await world.client.get("/v3/documents", params={"metadata": f"note:{note}"})
            (document,) = found.json()["documents"]
            assert (document["id"], document["metadata"]) == (document_id, {"note": note})

    asyncio.run(scenario())
