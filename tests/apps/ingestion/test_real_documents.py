"""More than 200 documents of Debian, each found by a sentence of its own."""

import asyncio
import re

import pytest
from tests.apps.conversion.real_pdfs import Missing
from tests.apps.ingestion.real_documents import find_documents
from tests.apps.ingestion.sites import site
from tests.apps.ingestion.world import World
from tests.support.missing import do_without
from tests.support.waiting import until

TYPES = {".html": "text/html", ".txt": "text/plain", ".pdf": "application/pdf"}
SENTENCE = re.compile(r"[A-Z](?:[^.|\n]|\n(?!\n)){60,200}\.")
WORDS = re.compile(r"[^\W_]+")
LEAST = 200


@pytest.fixture(scope="module")
def documents():
    try:
        return find_documents(html=170, text=60, pdf=30)
    except Missing as error:
        do_without(error)


@pytest.fixture(scope="module")
def texts(documents, tmp_path_factory):
    """The extracted text of each document, fetched from a local site and stored in SQLite."""
    folder = tmp_path_factory.mktemp("real")
    url = f"sqlite:///{folder / 'work.db'}"

    async def scenario():
        found, failed = {}, {}
        async with World(url, folder) as world, site() as web, world.working():
            for number, path in enumerate(documents):
                answer = (200, {"content-type": TYPES[path.suffix]}, path.read_bytes())
                web.answers[f"/{number}{path.suffix}"] = answer
            added = [await world.add(url=web.url(path)) for path in web.answers]
            await until(lambda: all_finished(world), seconds=300)
            for document_id in added:
                document = await world.show(document_id)
                if document["status"] == "failed":
                    failed[document["url"]] = document["failedReason"]
                    continue
                found[document_id] = await world.documents.content("local", document_id)
            ranks = await ranks_of(world, found)
        return found, failed, ranks

    return asyncio.run(scenario())


async def all_finished(world):
    await asyncio.sleep(0.2)  # counting takes time from the worker
    counts = await world.documents.counts("local")
    return set(counts) <= {"done", "failed"}


def own_sentences(texts):
    """Return a sentence of each document whose words stand together in no other one."""
    words = {name: " ".join(WORDS.findall(text.lower())) for name, text in texts.items()}
    chosen = {}
    for name, text in texts.items():
        for sentence in SENTENCE.findall(text):
            phrase = " ".join(WORDS.findall(sentence.lower()))
            if sum(phrase in other for other in words.values()) == 1:
                chosen[name] = sentence
                break
    return chosen


async def ranks_of(world, texts):
    """Return the place of each document among the hits for its own sentence, by sentence."""
    ranks = {}
    for name, sentence in own_sentences(texts).items():
        hits = [hit["documentId"] for hit in await world.search(sentence)]
        ranks[sentence] = hits.index(name) + 1 if name in hits else None
    return ranks


def assert_found(ranks, least):
    assert len(ranks) >= least
    assert {sentence: rank for sentence, rank in ranks.items() if rank not in {1, 2}} == {}


def test_each_document_is_found_first_or_second_by_a_sentence_of_its_own(texts):
    _, failed, ranks = texts

    # A few PDFs are pictures, or need a password.
    assert len(failed) <= 10, failed
    assert_found(ranks, LEAST)


def test_the_same_holds_on_postgres(texts, postgres_url, tmp_path):
    """With every third of the texts, extracted before; others test the rules of a search."""
    contents = list(texts[0].values())[::3]

    async def scenario():
        async with World(postgres_url, tmp_path) as world:
            added = {}
            async with world.working():
                body = {"documents": [{"content": each} for each in contents]}
                answer = await world.client.post("/v3/documents/batch", json=body)
                ids = [each["id"] for each in answer.json()["documents"]]
                added |= dict(zip(ids, contents, strict=True))
                await until(lambda: all_finished(world), seconds=300)
            return await ranks_of(world, added)

    assert_found(asyncio.run(scenario()), LEAST // 3)
