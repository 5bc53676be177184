"""The pages of concepts."""

import pytest
from tests.apps.ingestion.document_server import DocumentServer
from tests.http.pages.page_reader import text_of

from holdfast.jobs.views import JobFilter
from holdfast_ingestion.graph.extracted import bounded
from holdfast_ingestion.graph.repository import ChunkGraphs
from holdfast_ingestion.model_settings import ModelSettings

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def filled(busy):
    """A server with a document whose concepts are known."""
    server = busy.tenant()
    document = server.add(content="Otters eat fish.", title="Otters")
    server.wait(document)
    names = ["Otters", "Fish", HOSTILE]

    async def fill():
        database = server.engine.database
        ((chunk,),) = await database.fetch("SELECT id FROM ingestion_chunks", {})
        async with database.transaction() as tx:
            found = bounded(names, [("Otters", "eat", "Fish"), ("Fish", HOSTILE, HOSTILE)])
            await ChunkGraphs(database, "test").add(tx, {chunk: found})

    async def begin():
        """Extract its concepts now, and not 15 s after it is done."""
        where = JobFilter(kinds=("ingestion.concepts",))
        for job in (await server.engine.list(where)).jobs:
            await server.engine.retry_now(job.id)

    server.run(begin())
    server.until(lambda: server.client.get("/v3/concepts").json()["concepts"])
    server.run(fill())
    return server, document


def concept(page, name):
    found = page.all("//table[1]//a")
    return next(each.get("href") for each in found if text_of(each) == name)


def test_without_concepts_the_page_says_when_they_come(idle_server, look):
    page = look(idle_server, "/concepts")

    assert "soon after the first of your documents is done" in page.text("//div[@class='empty']")
    assert page.all("//figure") == []


def test_the_graph_is_a_picture_with_a_title_and_a_table(filled, look):
    server, _ = filled
    page = look(server, "/concepts")

    assert page.text("//figure//*[local-name()='svg']/*[local-name()='title']") == (
        "What your documents speak of"
    )
    names = page.texts("//div[@aria-labelledby='table-title']//tbody//td[1]")
    assert sorted(names) == sorted(["Otters", "Fish", HOSTILE])
    assert "OtterseatFish1" in page.texts("//div[@aria-labelledby='relations-title']//tr")
    assert "key phrases that a local library picked" in page.text("//p[@class='origin']")


def test_a_concept_leads_to_its_documents_and_relations(filled, look):
    server, document = filled
    page = look(server, concept(look(server, "/concepts"), "Otters"))

    assert page.text("//h1") == "Otters"
    assert page.one("//div[@aria-labelledby='documents-title']//a").get("href") == (
        f"/documents/{document}"
    )
    assert "1 of 1" in page.text("//p[@class='scope'][1]")
    assert "OtterseatFish1" in page.texts("//div[@aria-labelledby='relations-title']//tr")
    assert page.one("//a[contains(@href, '/search?')]").get("href") == "/search?q=Otters"


def test_hostile_names_are_text_in_the_picture_and_in_the_tables(filled, look):
    server, _ = filled
    overview = look(server, "/concepts")

    for path in ("/concepts", concept(overview, HOSTILE)):
        page = look(server, path)
        assert page.all("//script[not(@src)]") == []
        assert HOSTILE in page.text("//main")


@pytest.mark.parametrize("path", ["/concepts/none", "/concepts/a%00b"])
def test_a_concept_that_does_not_exist_is_refused_in_words(idle_server, look, path):
    assert "There is no such concept" in look(idle_server, path, 403).text("//main")


def test_other_organisations_have_other_concepts(filled, look):
    server, _ = filled
    other = server.member("other")

    assert look(server, "/concepts", client=other).all("//figure") == []
    path = concept(look(server, "/concepts"), "Otters")
    look(server, path, 403, client=other)


def test_a_language_model_is_named_where_one_reads(tmp_path, look):
    models = ModelSettings(chatmock_base_url="http://127.0.0.1:9/v1")
    with DocumentServer(tmp_path, working=False, models=models) as server:
        document = server.add(content="Otters eat fish.")

        async def fill():
            database = server.engine.database
            async with database.transaction() as tx:
                await tx.fetch(
                    "INSERT INTO ingestion_chunks (document, position, start_offset, end_offset,"
                    " text) VALUES (:document, 0, 0, 1, 'a') RETURNING id", {"document": document}
                )  # fmt: skip
                await ChunkGraphs(database, "chatmock").add(tx, {1: bounded(["Otters"], [])})

        server.run(fill())
        assert "A language model has read" in look(server, "/concepts").text("//p[@class='origin']")


def test_the_page_says_that_concepts_are_switched_off(tmp_path, look):
    models = ModelSettings(extracts_concepts=False)
    with DocumentServer(tmp_path, working=False, models=models) as server:
        assert "They are switched off here" in look(server, "/concepts").text("//main")
