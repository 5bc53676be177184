"""The page of one document, and what forms do."""

import pytest
from tests.http.pages.page_reader import text_of

from holdfast_ingestion.document_state import Stage
from holdfast_ingestion.pages import document_pages

SENTENCE = "Otters swim in cold rivers."
HTMX = {"hx-request": "true", "hx-request-type": "partial", "accept": "text/html"}


def facts(page):
    return {
        text_of(each.xpath("dt")[0]): text_of(each.xpath("dd")[0])
        for each in page.all("//dl[@class='about']/div")
    }


# -- one document --------------------------------------------------------------------------------


def test_a_documents_page_shows_its_source_its_attempts_and_its_text(server, look):
    url = server.site().html("/otters", "Otters", SENTENCE)
    document = server.add(url=url, metadata={"team": "blue"})
    server.wait(document)

    page = look(server, f"/documents/{document}")

    assert page.text("//h1") == "Otters"
    assert facts(page).items() >= {("Address", url), ("Passages", "1"), ("Id", document)}
    assert facts(page)["Type"].startswith("text/html, ")
    assert page.one("//dl//a").get("rel") == "noopener noreferrer nofollow"
    assert "Attempt 1 · Succeeded after" in page.text("//ol[@class='steps']")
    assert SENTENCE in page.text("//div[@class='scroll text']")
    assert page.text("//ul[@class='labels']") == "team: blue"
    assert page.one("//*[@id='board']").get("data-shared") is None


def test_a_failed_document_says_why_and_in_which_attempt(server, look):
    document = server.add(url=server.site().url("/missing"))
    server.wait(document)

    page = look(server, f"/documents/{document}")

    assert "The site has no page at this address" in page.row(f"doc-{document}")
    assert "FETCH_4XX" in page.text("//ol[@class='steps']")
    assert "There is none yet." in page.text("//article")
    assert page.one(f"//form[@id='retry-{document}']") is not None


def test_a_document_that_waits_says_nothing_was_tried(idle_server, look):
    document = idle_server.add(content=SENTENCE)

    page = look(idle_server, f"/documents/{document}")

    assert "Nothing was tried yet." in page.text("//article")
    assert facts(page)["Passages"] == "none yet"
    assert page.one("//*[@id='board']").get("data-shared") is not None


def test_a_document_whose_jobs_record_is_gone_says_how_often_it_was_tried(server, look):
    document = server.add(content=SENTENCE)
    server.wait(document)

    async def forget():
        async with server.engine.database.transaction() as tx:
            await tx.fetch("DELETE FROM holdfast_jobs RETURNING id", {})

    server.run(forget())

    page = look(server, f"/documents/{document}")
    assert "Processed after 1 attempt." in page.text("//article")


def test_a_long_text_is_cut_and_says_how_long_it_is(idle_server, look, monkeypatch):
    monkeypatch.setattr(document_pages, "MOST_SHOWN", 9)
    document = idle_server.add(content=SENTENCE, title="Long")

    page = look(idle_server, f"/documents/{document}")

    assert page.one("//div[@class='scroll text']").text == SENTENCE[:9]
    assert "The first 9 of 27 characters." in page.text("//article")


@pytest.mark.parametrize("path", ["/documents/none", f"/documents/{'0' * 32}"])
def test_a_document_that_does_not_exist_is_refused_in_words(idle_server, look, path):
    page = look(idle_server, path, 403)

    assert "There is no such document, or it is not yours." in page.text("//main")


def test_hostile_documents_are_text_wherever_they_are_shown(server, look):
    script = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
    document = server.add(content=f"{script} otter", title=script, metadata={script: script})
    server.wait(document)

    for path in ("/documents", f"/documents/{document}", "/search?q=otter", "/search?q=script"):
        page = look(server, path)
        assert page.all("//script[not(@src)] | //img") == []
        assert "<script>alert(1)</script>" in page.text("//main")
        assert page.all("//@onerror") == []


def test_no_template_has_inline_scripts_or_styles(idle_server, look):
    document = idle_server.add(content=SENTENCE)

    for path in ("/documents", f"/documents/{document}", "/search?q=a", "/concepts"):
        page = look(idle_server, path)
        assert page.all("//script[not(@src)] | //style | //@style | //@onclick") == []


# -- forms ---------------------------------------------------------------------------------------


def test_a_failed_document_is_retried_by_a_form(server, look, submit):
    web = server.site()
    document = server.add(url=web.url("/late"))
    server.wait(document)
    web.text("/late", SENTENCE)

    path = submit(server, f"/documents/{document}/retry", {"page": "document"})

    assert path == f"/documents/{document}?note=retried"
    assert "Back in the queue" in look(server, path).text("//*[@id='toast']")
    assert server.wait(document)["status"] == "done"


def test_a_form_of_the_list_leads_back_to_the_same_view(idle_server, submit):
    document = idle_server.add(content=SENTENCE)
    fields = {"status": "active", "q": "otter", "metadata": "a:b"}

    path = submit(idle_server, f"/documents/{document}/retry", fields)

    # It had not failed, so there is a note and nothing else.
    assert path == "/documents?status=active&q=otter&metadata=a%3Ab&note=INVALID_STATE"


def test_a_document_is_deleted_by_a_form_from_either_page(idle_server, look, submit):
    for page in ("", "document"):
        document = idle_server.add(content=SENTENCE)

        path = submit(idle_server, f"/documents/{document}/delete", {"page": page})

        assert path == "/documents?note=deleted"
        assert "Deleted" in look(idle_server, path).text("//*[@id='toast']")
        look(idle_server, f"/documents/{document}", 403)


def test_a_done_document_is_refreshed_by_a_form(server, submit):
    web = server.site()
    document = server.add(url=web.text("/a", SENTENCE))
    server.wait(document)
    web.text("/a", "Beavers build dams.")

    assert submit(server, f"/documents/{document}/refresh") == "/documents?note=refreshing"
    content = f"/v3/documents/{document}/content"
    server.until(lambda: "Beavers" in server.client.get(content).text)


def test_an_attempt_begins_at_once_where_a_person_asks_for_it(idle_server, submit):
    document = idle_server.add(content=SENTENCE)

    assert submit(idle_server, f"/documents/{document}/retry-now").endswith("note=expedited")

    idle_server.hold("(upload)")
    try:
        assert submit(idle_server, f"/documents/{document}/retry-now").endswith("note=paused")
    finally:
        idle_server.run(idle_server.engine.downstreams.release("host:(upload)"))


def test_another_organisations_document_cannot_be_changed(idle_server, submit):
    document = idle_server.add(content=SENTENCE)
    other = idle_server.member("other")

    for move in ("retry", "retry-now", "refresh", "delete"):
        submit(idle_server, f"/documents/{document}/{move}", status=403, client=other)
    assert idle_server.show(document)["status"] == Stage.QUEUED


def test_an_unknown_note_says_nothing(idle_server, look):
    assert look(idle_server, "/documents?note=%3Cb%3E").text("//*[@id='toast']") == ""


def test_htmx_gets_the_part_that_changes(idle_server):
    answer = idle_server.client.get("/documents?note=added", headers=HTMX)

    assert answer.text.lstrip().startswith('<section class="board documents" id="board"')
    assert "processed by itself" in answer.headers["hx-trigger"]
