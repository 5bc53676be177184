"""The ingestion campaign in its shortest form, and that it notices what it is there to find."""

import random

import pytest
from campaigns import ingestion
from campaigns.ingestion import StoredChunk, judge_chunks, judge_documents
from campaigns.plan import STORES, Plan
from campaigns.sample_documents import Sites, sample_documents
from tests.support.postgres import postgres_server  # noqa: F401

from holdfast_ingestion.formats import Format


class Tiny(Plan):
    """A plan with 24 documents and two kills."""

    __slots__ = ()

    def pick(self, full, short):
        return {60: 24, 5: 2}.get(short, short)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("store", STORES)
def test_a_service_that_is_killed_ingests_every_document_once(store, tmp_path, request):
    if store == "postgres":
        request.getfixturevalue("postgres_server")  # skips without a server, or fails in CI

    outcome = ingestion.run(Tiny("ingestion", store, 3, False, tmp_path))

    assert (outcome.findings, outcome.skipped) == ([], "")
    assert (outcome.figures["documents"], outcome.figures["kills"]) == (24, 2)


# -- what the campaign would find ------------------------------------------------------------------


@pytest.fixture(scope="module")
def documents():
    return sample_documents(40, random.Random(1), Sites(0))


@pytest.fixture
def ids(documents):
    return {each.number: f"id-{each.number}" for each in documents}


@pytest.fixture
def stored(documents, ids):
    return [
        StoredChunk(ids[each.number], place, chunk.start, chunk.end, chunk.text)
        for each in documents
        for place, chunk in enumerate(each.chunks)
    ]


@pytest.fixture
def listed(documents, ids):
    return {ids[each.number]: {"status": "done", "chunks": len(each.chunks)} for each in documents}


def test_the_documents_have_all_formats_and_several_chunks(documents):
    assert {each.format for each in documents} == set(Format)
    assert {each.url is None for each in documents} == {True, False}
    assert max(len(each.chunks) for each in documents) > 2
    assert len({each.sentence for each in documents}) == len(documents)


def test_the_same_seed_makes_the_same_documents(documents):
    again = sample_documents(40, random.Random(1), Sites(0))
    assert [each.chunks for each in again] == [each.chunks for each in documents]


def test_what_is_complete_has_no_findings(ids, documents, stored, listed):
    assert judge_chunks(ids, documents, stored) == []
    assert judge_documents(ids, documents, listed) == []


def test_a_missing_chunk_is_found(ids, documents, stored):
    assert judge_chunks(ids, documents, stored[1:]) == [
        f"lost: 1 chunks of 0 ({documents[0].format})"
    ]


def test_a_chunk_that_is_stored_twice_is_found(ids, documents, stored):
    (finding,) = judge_chunks(ids, documents, [stored[0], *stored])
    assert finding.startswith("duplicate: 1 chunks of 0")


def test_a_chunk_with_another_text_is_found(ids, documents, stored):
    changed = [stored[0]._replace(text="other"), *stored[1:]]
    assert len(judge_chunks(ids, documents, changed)) == 2


def test_chunks_without_a_document_are_found(ids, documents, stored):
    stray = stored[0]._replace(document="deleted")
    assert judge_chunks(ids, documents, [*stored, stray]) == [
        "duplicate: chunks of deleted, no document"
    ]


def test_an_acknowledged_document_that_is_missing_or_failed_is_found(ids, documents, listed):
    del listed["id-0"]
    listed["id-1"] = {"status": "failed", "failedReason": "broken"}
    findings = judge_documents(ids, documents, listed)
    assert [each.partition(" (")[0] for each in findings] == ["lost: 0", "lost: 1"]


def test_a_document_that_was_stored_twice_is_found(ids, documents, listed):
    listed["id-again"] = dict(listed["id-0"])
    assert judge_documents(ids, documents, listed) == ["duplicate: id-again was not acknowledged"]
