"""Each database finds the nearest vectors, as a comparison with all of them does."""

import asyncio
import random

import pytest
from tests.support.waiting import until

from holdfast import App, AppTables, Engine
from holdfast_ingestion.embeddings import repository
from holdfast_ingestion.embeddings.repository import Embeddings
from holdfast_ingestion.embeddings.vectors import as_vector
from holdfast_ingestion.queries import load_queries
from holdfast_ingestion.word_search import Scope


def random_vector(rng):
    return as_vector([rng.gauss(0, 1) for _ in range(8)])


async def add_documents(database, count, chunks):
    """Add done documents `0`, `1`, … of the organisation `us`, each with so many chunks."""
    table = "ingestion_documents" if database.dialect == "sqlite" else "ingestion.documents"
    columns = "id, organisation, owner, source_key, type, status, created_at"
    add = f"INSERT INTO {table} ({columns}) VALUES (:id, 'us', 'me', :id, 'text', 'done', 0)"
    async with database.transaction() as tx:
        for number in range(count):
            await tx.fetch(add, {"id": str(number)})
            rows = [
                {"document": str(number), "position": each, "start": 0, "end": 1, "text": f"{each}"}
                for each in range(chunks)
            ]
            await tx.execute_many(load_queries(database.dialect)["add_chunk"], rows)


def open_engine(url):
    return Engine(url, apps=[App("ingestion", tables=AppTables("holdfast_ingestion"))])


@pytest.fixture
def engine(vectors_url):
    return open_engine(vectors_url)


def test_the_nearest_passage_of_each_document_is_found(engine, monkeypatch):
    monkeypatch.setattr(repository, "_PART", 7)  # so that SQLite reads several parts
    rng = random.Random(1)

    async def scenario():
        async with engine:
            await add_documents(engine.database, 10, 5)
            embeddings = Embeddings(engine.database, "model")
            vectors = {}
            for number in range(10):
                missing = await embeddings.missing(str(number), 100)
                own = {chunk: random_vector(rng) for chunk, _ in missing}
                vectors[str(number)] = own
                async with engine.database.transaction() as tx:
                    await embeddings.add(tx, own)
                assert await embeddings.missing(str(number), 100) == []
            asked = random_vector(rng)
            return asked, vectors, await embeddings.search(Scope("us"), asked, 10)

    asked, vectors, hits = asyncio.run(scenario())
    best = {
        document: max(
            (sum(a * b for a, b in zip(asked, vector, strict=True)), chunk)
            for chunk, vector in own.items()
        )
        for document, own in vectors.items()
    }
    order = sorted(best, key=lambda document: -best[document][0])
    assert [hit.document_id for hit in hits] == order
    assert [hit.chunk_id for hit in hits] == [best[document][1] for document in order]
    assert [hit.score for hit in hits] == pytest.approx(
        [best[document][0] for document in order], abs=1e-5
    )


def test_embeddings_of_another_model_are_not_compared_and_are_made_again(engine):
    async def scenario():
        async with engine:
            await add_documents(engine.database, 1, 1)
            old, new = (Embeddings(engine.database, model) for model in ("old", "new"))
            ((chunk, _),) = await new.missing("0", 1)
            async with engine.database.transaction() as tx:
                await old.add(tx, {chunk: as_vector([1.0])})
            assert len(await old.search(Scope("us"), as_vector([1.0]), 1)) == 1
            assert await new.search(Scope("us"), as_vector([1.0]), 1) == []
            assert await new.unfinished("embed-new", 10) == [("0", chunk)]
            async with engine.database.transaction() as tx:
                await new.add(tx, {chunk: as_vector([1.0]), chunk + 1: as_vector([1.0])})
            assert len(await new.search(Scope("us"), as_vector([1.0]), 1)) == 1
            assert await old.search(Scope("us"), as_vector([1.0]), 1) == []
            assert await new.unfinished("embed-new", 10) == []

    asyncio.run(scenario())


def test_pgvector_is_used_where_the_server_has_it(pgvector_url, postgres_url):
    async def has_pgvector(url):
        async with Engine(
            url, apps=[App("ingestion", tables=AppTables("holdfast_ingestion"))]
        ) as e:
            ((found,),) = await e.database.fetch(load_queries("postgresql")["has_pgvector"])
            return found

    assert asyncio.run(has_pgvector(pgvector_url)) is True
    assert asyncio.run(has_pgvector(postgres_url)) is False


def test_a_chunk_that_is_being_deleted_gets_no_embedding(postgres_url):
    async def scenario():
        async with open_engine(postgres_url) as opened:
            database = opened.database
            await add_documents(database, 1, 1)
            embeddings = Embeddings(database, "model")
            ((chunk, _),) = await embeddings.missing("0", 1)

            async def add():
                async with database.transaction() as tx:
                    await embeddings.add(tx, {chunk: as_vector([1.0])})

            async with database.transaction() as tx:
                await tx.fetch(load_queries("postgresql")["delete_chunks"], {"id": "0"})
                adding = asyncio.create_task(add())
                await until(lambda: waits_for_a_lock(database))
            await adding
            assert await database.fetch("SELECT chunk FROM ingestion.embeddings") == []

    asyncio.run(scenario())


async def waits_for_a_lock(database):
    return await database.fetch("SELECT 1 FROM pg_locks WHERE NOT granted")
