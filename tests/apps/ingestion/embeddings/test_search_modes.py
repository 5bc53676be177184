"""Search by words, by meaning and by both, with scripted embeddings, on each database."""

import asyncio

import pytest
from tests.apps.ingestion.models import embed_topics, embedded, with_gemini
from tests.apps.ingestion.world import World

from holdfast.testing.downstream import hang, status

CAT = "The feline slept all afternoon on a rug."
CAR = "An automobile needs maintenance after a long journey."
BREAD = "A baguette comes out of the oven."
PARAPHRASES = {
    "kitten naps": CAT,
    "who fixes cars": CAR,
    "baking some loaf": BREAD,
}
"""Searches that share no word with what they mean."""


async def asked(world, query, **fields):
    answer = await world.client.get("/v3/search", params={"q": query, **fields})
    return answer.status_code, answer.json()


def passages(answer):
    return [hit["passage"] for hit in answer["hits"]]


def test_hybrid_finds_paraphrases_that_words_alone_do_not(vectors_url, tmp_path, gemini):
    gemini.script(embed_topics())

    async def scenario():
        async with World(vectors_url, tmp_path, models=with_gemini(gemini)) as world:
            async with world.working():
                documents = [await world.add(content=text) for text in (CAT, CAR, BREAD)]
                await embedded(world, *documents)
            for query, text in PARAPHRASES.items():
                _, by_words = await asked(world, query, mode="words")
                assert text not in passages(by_words)
                for mode in ("hybrid", "semantic"):
                    _, answer = await asked(world, query, mode=mode)
                    assert (answer["mode"], answer["degraded"]) == (mode, False)
                    assert passages(answer)[0] == text
            _, answer = await asked(world, "automobile")
            assert answer["mode"] == "hybrid"
            assert passages(answer)[0] == CAR
            assert answer["hits"][0]["highlights"]

    asyncio.run(scenario())


def test_organisations_and_their_parts_are_kept_apart(vectors_url, tmp_path, gemini):
    gemini.script(embed_topics())

    async def scenario():
        async with World(vectors_url, tmp_path, models=with_gemini(gemini)) as world:
            other = await world.with_key("other")
            async with world.working():
                mine = await world.add(content=CAT, orgId="left")
                theirs = await world.add(other, content=CAT)
                await embedded(world, mine, theirs)
            for client, document in ((world.client, mine), (other, theirs)):
                (hit,) = await world.search("kitten naps", client, mode="semantic")
                assert hit["documentId"] == document
            assert await world.search("kitten naps", orgId="right", mode="semantic") == []
            assert len(await world.search("kitten naps", orgId="left", mode="semantic")) == 1

    asyncio.run(scenario())


def test_without_a_key_words_are_the_default_and_meaning_is_refused(sqlite_url, tmp_path):
    async def scenario():
        async with World(sqlite_url, tmp_path) as world:
            assert await asked(world, "cat") == (
                200,
                {"mode": "words", "degraded": False, "hits": []},
            )
            for mode in ("semantic", "hybrid"):
                code, answer = await asked(world, "cat", mode=mode)
                assert (code, answer["error"]["code"]) == (409, "SEMANTIC_SEARCH_OFF")
                assert "not set up" in answer["error"]["message"]
            code, answer = await asked(world, "cat", mode="telepathy")
            assert (code, answer["error"]["code"]) == (422, "VALIDATION_ERROR")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("failure", "mode"), [(status(503), "semantic"), (status(400), "hybrid"), (hang(), "hybrid")]
)
def test_a_query_without_an_embedding_goes_by_words_and_says_so(
    sqlite_url, tmp_path, gemini, failure, mode
):
    gemini.script(failure)

    async def scenario():
        async with World(sqlite_url, tmp_path, models=with_gemini(gemini)) as world:
            async with world.working():
                await world.finished(await world.add(content=CAT))
            _, answer = await asked(world, "feline", mode=mode)
            assert (answer["mode"], answer["degraded"]) == ("words", True)
            assert passages(answer) == [CAT]

    asyncio.run(scenario())


def test_a_search_without_words_or_too_long_is_refused_in_every_mode(sqlite_url, tmp_path, gemini):
    async def scenario():
        async with World(sqlite_url, tmp_path, models=with_gemini(gemini)) as world:
            for mode in ("words", "semantic", "hybrid"):
                for query in ("", " ?! "):
                    code, answer = await asked(world, query, mode=mode)
                    assert (code, answer["error"]["code"]) == (400, "EMPTY_SEARCH")
                code, answer = await asked(world, "x" * 10_000, mode=mode)
                assert (code, answer["error"]["code"]) == (400, "SEARCH_TOO_LONG")
        assert not gemini.requests

    asyncio.run(scenario())
