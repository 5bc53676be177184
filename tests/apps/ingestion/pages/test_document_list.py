"""The list of documents: filters in the address, paging, counts, states."""

import pytest
from tests.apps.ingestion.document_server import DocumentServer
from tests.http.pages.page_reader import text_of
from tests.http.pages.sample_app import SampleApp

from holdfast_ingestion.pages import document_list
from holdfast_ingestion.pages.document_list import DocumentsView

CURSOR = "0" * 32


def names(page):
    return page.texts("//ul[@id='rows']//a[@class='row-name']")


def choices(page):
    return {
        text_of(each).split(" ")[0]: (text_of(each).split(" ")[-1], each.get("aria-current"))
        for each in page.all("//nav[@aria-label='Filter by status']//a")
    }


# -- the address ---------------------------------------------------------------------------------


def test_a_view_is_kept_in_its_address():
    view = DocumentsView.of("failed", " otter ", "team:blue", CURSOR)

    assert view.path() == f"/documents?status=failed&q=otter&metadata=team%3Ablue&cursor={CURSOR}"
    assert view.path(cursor="", note="added").endswith("metadata=team%3Ablue&note=added")
    assert DocumentsView.of("", "", "", "").path() == "/documents"


def test_what_an_address_cannot_mean_is_ignored():
    assert DocumentsView.of("sleeping", "", "", "../etc") == DocumentsView()
    assert DocumentsView.of("", "a\0b" + "c" * 500, "", "").text == "ab" + "c" * 198


@pytest.mark.parametrize("metadata", ["blue", ":blue", " : "])
def test_a_label_without_key_and_value_is_no_filter(metadata):
    assert DocumentsView.of("", "", metadata, "").wanted is None
    assert DocumentsView.of("", "", metadata, "").where().metadata == ()


def test_a_label_is_kept_as_it_was_typed():
    for label in (" see : https://a ", "e\u0301:x", "long:" + "x" * 16_000):
        assert DocumentsView.of("", "", f"{label}\0", "").where().metadata == (label,)


# -- the rows ------------------------------------------------------------------------------------


def test_without_documents_the_page_says_what_to_do(idle_server, look):
    page = look(idle_server, "/documents")

    assert "Add an address, a text or a file above." in page.text("//*[@id='empty']")
    assert page.all("//form[@id='finder']") == []
    assert page.one("//nav[@aria-label='Apps']//a[@aria-current='page']").text == "Documents"


def test_filters_are_applied_by_the_server_and_stay_in_links_and_forms(idle_server, look):
    idle_server.add(url="https://otters.example/river", metadata={"team": "blue"})
    idle_server.add(content="b", title="Otter notes", metadata={"team": "red"})
    idle_server.add(content="c", title="Other things", metadata={"team": "blue"})

    assert names(look(idle_server, "/documents")) == [
        "Other things", "Otter notes", "https://otters.example/river",
    ]  # fmt: skip
    assert len(names(look(idle_server, "/documents?q=OTTER"))) == 2
    page = look(idle_server, "/documents?q=otter&metadata=team:blue&status=active")
    assert names(page) == ["https://otters.example/river"]
    assert page.one("//input[@id='finder-text']").get("value") == "otter"
    assert page.one("//a[@id='filter-done']").get("href") == (
        "/documents?status=done&q=otter&metadata=team%3Ablue"
    )
    assert page.one("//form[contains(@id, 'delete-')]/input[@name='q']").get("value") == "otter"
    assert page.one("//*[@id='board']").get("hx-get") == (
        "/documents?status=active&q=otter&metadata=team%3Ablue"
    )
    assert "1 is shown, newest first. Counts cover all 3 documents" in page.text(
        "//p[@class='scope']"
    )


def test_counts_are_of_all_documents_by_status(idle_server, look):
    idle_server.add(content="a")
    idle_server.add(content="b")

    page = look(idle_server, "/documents?status=failed")

    assert choices(page) == {
        "All": ("2", None), "In": ("2", None), "Done": ("0", None), "Failed": ("0", "true"),
    }  # fmt: skip
    assert "None of your documents is in this list." in page.text("//*[@id='empty']")


def test_a_label_that_cannot_be_understood_is_explained(idle_server, look):
    idle_server.add(content="a")

    page = look(idle_server, "/documents?metadata=blue")

    assert "written key:value" in page.text("//*[@id='finder-problem']")
    assert page.one("//input[@id='finder-metadata']").get("aria-invalid") == "true"
    assert len(names(page)) == 1


def test_pages_follow_each_other_by_a_cursor(idle_server, look, monkeypatch):
    monkeypatch.setattr(document_list, "PAGE_SIZE", 2)
    for number in range(3):
        idle_server.add(content=f"text {number}", title=f"Number {number}")

    first = look(idle_server, "/documents")
    second = look(idle_server, first.one("//a[@id='page-older']").get("href"))

    assert (names(first), names(second)) == (["Number 2", "Number 1"], ["Number 0"])
    assert first.all("//a[@id='page-newer']") == second.all("//a[@id='page-older']") == []
    assert second.one("//a[@id='page-newer']").get("href") == "/documents"


def test_rows_lead_to_their_labels_and_escape_them(idle_server, look):
    idle_server.add(content="a", metadata={'a"b': "<i>&", "n": 1, "l": ["&", 1.0]})

    links = look(idle_server, "/documents").all("//ul[@class='labels']//a")

    assert [text_of(each) for each in links] == ['a"b: <i>&', 'l: ["\\u0026", 1.0]', "n: 1"]
    for link in links:
        assert len(names(look(idle_server, link.get("href")))) == 1


def test_organisations_see_their_own_documents_only(idle_server, look):
    document = idle_server.add(content="secret")
    other = idle_server.member("other")

    assert "No documents yet" in look(idle_server, "/documents", client=other).text(
        "//*[@id='empty']"
    )
    look(idle_server, f"/documents/{document}", 403, client=other)


def test_documents_of_a_paused_site_say_so_and_others_do_not(idle_server, look):
    held = idle_server.add(url="https://dead.example/a")
    other = idle_server.add(url="https://alive.example/a")
    idle_server.hold("dead.example")

    page = look(idle_server, "/documents")

    assert page.one(f"//*[@id='job-doc-{held}']").get("data-look") == "held"
    assert "dead.example does not answer and is paused." in page.row(f"doc-{held}")
    assert page.one(f"//*[@id='job-doc-{other}']").get("data-look") == "queued"
    assert page.text("//p[@role='alert']") == "dead.example does not answer."
    assert page.text("//p[@class='banner-more']") == (
        "Its documents wait, which uses up no attempts. Once a minute one of them is tried; "
        "if that fails, it counts as an attempt. All others go on."
    )


def test_only_the_first_of_many_paused_sites_are_named(idle_server, look):
    for number in range(4):
        idle_server.add(url=f"https://dead{number}.example/a")
        idle_server.hold(f"dead{number}.example")

    assert look(idle_server, "/documents").text("//p[@role='alert']") == (
        "dead3.example, dead2.example, dead1.example and 1 more do not answer."
    )


def test_paused_sites_are_no_matter_of_the_front_page(tmp_path, look):

    with DocumentServer(tmp_path, working=False, others=[SampleApp(tmp_path / "s")]) as server:
        server.add(url="https://dead.example/a")
        server.hold("dead.example")

        assert look(server, "/").all("//p[@role='alert']") == []
