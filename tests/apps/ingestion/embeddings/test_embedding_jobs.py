"""Embeddings are made after a document is done, and whatever happens in between."""

import asyncio

import pytest
from tests.apps.ingestion.models import embed_topics, embedded, embedding, texts_of, with_gemini
from tests.apps.ingestion.sites import site
from tests.apps.ingestion.world import World
from tests.support.providers import WRONG_KEY, embeddings
from tests.support.waiting import until

from holdfast import CircuitState, JobFilter, JobStatus
from holdfast.testing.downstream import hang, status
from holdfast_ingestion.embeddings.embedder import RATE, RATE_NAME

CAT = "The feline slept all afternoon on a rug."
CAR = "An automobile needs maintenance after a long journey."


async def stored(world):
    """Return the chunks that have an embedding."""
    table = "ingestion_embeddings" if is_sqlite(world) else "ingestion.embeddings"
    return [row[0] for row in await world.engine.database.fetch(f"SELECT chunk FROM {table}")]


def is_sqlite(world):
    return world.engine.database.dialect == "sqlite"


async def embed_jobs(world, *statuses):
    found = await world.engine.list(JobFilter(kinds=("ingestion.embed",), statuses=statuses))
    return found.jobs


async def tried_before(world):
    """Return the jobs that wait for another attempt."""
    return [job for job in await embed_jobs(world, JobStatus.QUEUED) if job.last_error]


def texts(gemini):
    return [text for request in gemini.requests for text in texts_of(request)]


def test_a_document_whose_embedding_is_held_is_found_by_words_and_completed_later(
    database_url, tmp_path, gemini
):
    gemini.script(embed_topics())

    async def scenario():
        async with World(database_url, tmp_path, models=with_gemini(gemini)) as world:
            await world.engine.downstreams.hold("gemini")
            async with world.working():
                document = await world.add(content=CAT)
                assert (await world.finished(document))["status"] == "done"
                assert len(await world.search("feline", mode="words")) == 1
                assert not gemini.requests
                await world.engine.downstreams.release("gemini")
                await embedded(world, document)
            (hit,) = await world.search("kitten", mode="semantic")
            assert hit["documentId"] == document

    asyncio.run(scenario())


def test_failures_of_the_api_open_its_breaker_and_cost_no_document(sqlite_url, tmp_path, gemini):
    gemini.script(status(503))

    async def scenario():
        async with World(sqlite_url, tmp_path, models=with_gemini(gemini)) as world:

            async def is_open():
                return await world.engine.downstreams.state("gemini") is CircuitState.OPEN

            async with world.working():
                documents = [await world.add(content=f"Otter number {n}.") for n in range(6)]
                for each in documents:
                    assert (await world.finished(each))["status"] == "done"
                await until(is_open)
                assert len(gemini.requests) in {5, 6}  # two run at a time
                gemini.script(embed_topics())
                await world.engine.downstreams.reset("gemini")
                for job in await embed_jobs(world, JobStatus.QUEUED):
                    await world.expedite(job.id)
                await embedded(world, *documents)

    asyncio.run(scenario())


def test_chunks_that_a_refresh_replaces_are_embedded_anew(database_url, tmp_path, gemini):
    gemini.script(embed_topics())

    async def scenario():
        async with (
            World(database_url, tmp_path, models=with_gemini(gemini)) as world,
            site() as web,
        ):
            async with world.working():
                document = await world.add(url=web.text("/page", CAT))
                await embedded(world, document)
                (before,) = await stored(world)
                web.text("/page", CAR)
                await world.client.post(f"/v3/documents/{document}/refresh")
                await until(lambda: CAR in texts(gemini))
                await embedded(world, document)
            (after,) = await stored(world)
            assert after != before
            (hit,) = await world.search("who fixes cars", mode="semantic")
            assert hit["passage"] == CAR

    asyncio.run(scenario())


def test_embeddings_of_a_deleted_document_go_with_it(database_url, tmp_path, gemini):
    gemini.script(embed_topics())

    async def scenario():
        async with World(database_url, tmp_path, models=with_gemini(gemini)) as world:
            async with world.working():
                document = await world.add(content=CAT)
                await embedded(world, document)
            await world.client.delete(f"/v3/documents/{document}")
            assert await stored(world) == []
            assert await world.search("kitten", mode="semantic") == []

    asyncio.run(scenario())


def test_a_document_that_is_deleted_while_it_is_embedded_leaves_nothing(
    database_url, tmp_path, gemini
):
    gemini.script(hang(embeddings(embedding(CAT))))

    async def scenario():
        async with World(database_url, tmp_path, models=with_gemini(gemini)) as world:
            async with world.working():
                document = await world.add(content=CAT)
                await until(lambda: gemini.requests)
                await world.client.delete(f"/v3/documents/{document}")
                gemini.release()
                await until(lambda: embed_jobs(world, JobStatus.COMPLETE))
            assert await stored(world) == []

    asyncio.run(scenario())


def test_a_long_document_takes_one_request_for_each_hundred_chunks(sqlite_url, tmp_path, gemini):
    gemini.script(embed_topics())
    long = "\n\n".join(f"Chapter {n}. " + "An otter swims. " * 70 for n in range(130))

    async def scenario():
        async with World(sqlite_url, tmp_path, models=with_gemini(gemini)) as world:
            async with world.working():
                document = await world.add(content=long)
                await embedded(world, document)
            chunks = await world.chunks(document)
            assert len(chunks) > 100
            assert len(gemini.requests) == -(-len(chunks) // 100)
            assert texts(gemini) == [text for _, text in chunks]

    asyncio.run(scenario())


def test_documents_of_before_the_key_was_set_are_caught_up_with_once(
    database_url, tmp_path, gemini
):
    gemini.script(embed_topics())

    async def scenario():
        async with World(database_url, tmp_path) as world, world.working():
            documents = [await world.add(content=text) for text in (CAT, CAR)]
            for each in documents:
                await world.finished(each)
        async with World(database_url, tmp_path, models=with_gemini(gemini)) as world:
            (follow_up,) = world.app.follow_ups
            for _ in range(2):
                await world.engine.enqueue(follow_up.catch_up)
                await world.engine.work(until_idle=True)
            assert sorted(texts(gemini)) == sorted([CAT, CAR])
            assert len(await stored(world)) == 2

    asyncio.run(scenario())


def test_requests_of_jobs_and_of_searches_share_one_rate(database_url, tmp_path, gemini):
    gemini.script(embed_topics())

    async def scenario():
        async with World(database_url, tmp_path, models=with_gemini(gemini)) as world:
            rate = world.engine.shared_rate(RATE_NAME, RATE)
            for _ in range(99):
                assert await rate.reserve(0.0) == 0
            async with world.working():
                first = await world.add(content=CAT)
                await embedded(world, first)  # takes the last place of this minute
                await world.finished(await world.add(content=CAR))
                (job,) = await until(lambda: tried_before(world))
            assert job.last_error.code == "RATE_LIMITED"
            assert job.ready_at - world.engine.clock.wall() > 30
            answer = await world.client.get("/v3/search", params={"q": "kitten"})
            assert answer.json()["degraded"] is True
        assert texts(gemini) == [CAT]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "refusal",
    [status(400, json=WRONG_KEY), status(401), status(403), status(404)],
    ids=["400", "401", "403", "404"],
)
def test_a_refused_key_is_an_outage_and_its_documents_go_on_with_a_good_one(
    sqlite_url, tmp_path, gemini, refusal
):
    gemini.script(refusal)

    async def scenario():
        async with (
            World(sqlite_url, tmp_path, models=with_gemini(gemini)) as world,
            world.working(),
        ):
            document = await world.add(content=CAT)
            (job,) = await until(lambda: tried_before(world))
            assert job.last_error.code == "MODEL_KEY_REFUSED"
            gemini.script(embed_topics())
            await world.expedite(job.id)
            await embedded(world, document)

    asyncio.run(scenario())


def test_a_text_that_is_refused_fails_for_good(sqlite_url, tmp_path, gemini):
    gemini.script(status(400))

    async def scenario():
        async with (
            World(sqlite_url, tmp_path, models=with_gemini(gemini)) as world,
            world.working(),
        ):
            await world.add(content=CAT)
            (job,) = await until(lambda: embed_jobs(world, JobStatus.FAILED))
            assert job.last_error.code == "GW_4XX"

    asyncio.run(scenario())


def test_an_embedding_without_a_direction_is_asked_for_again(sqlite_url, tmp_path, gemini):
    gemini.script(embeddings([0.0, 0.0]), embed_topics())

    async def scenario():
        async with (
            World(sqlite_url, tmp_path, models=with_gemini(gemini)) as world,
            world.working(),
        ):
            document = await world.add(content=CAT)
            (job,) = await until(lambda: tried_before(world))
            assert job.last_error.code == "UNWANTED_RESULT"
            await world.expedite(job.id)
            await embedded(world, document)

    asyncio.run(scenario())
