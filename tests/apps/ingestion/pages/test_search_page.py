"""The search page."""

import pytest
from tests.apps.ingestion.document_server import DocumentServer

from holdfast_ingestion.pages import search_page
from holdfast_ingestion.pages.search_page import pieces_of, shortened, summary_of
from holdfast_ingestion.search import Mode, SearchAnswer

SENTENCE = "Otters swim in cold rivers."


def hits(page):
    return page.all("//article[@class='hit']")


def test_without_a_query_the_page_is_a_field_and_a_hint(idle_server, look):
    page = look(idle_server, "/search")

    assert page.one("//input[@id='q']").get("autofocus") is not None
    assert hits(page) == page.all("//*[@role='alert']") == []
    assert page.all("//input[@name='mode']") == []


def test_passages_have_their_words_marked_and_their_source_beside_them(server, look):
    web = server.site()
    document = server.add(url=web.html("/otters", "About otters", SENTENCE))
    server.wait(document)

    page = look(server, "/search?q=cold+river")

    assert page.text("//p[@class='found']") == "1 document, found by their words."
    (hit,) = hits(page)
    assert hit.xpath(".//h2/a")[0].get("href") == f"/documents/{document}"
    assert page.texts("//mark") in (["cold", "rivers"], ["cold rivers"])
    assert f"127.0.0.1:{web.port} · Passage 1, characters 1 to" in page.text(
        "//p[@class='hit-source']"
    )
    assert page.one("//input[@id='q']").get("value") == "cold river"
    assert page.one("//title").text.startswith("cold river · Search")


def test_a_search_without_a_hit_says_so(idle_server, look):
    page = look(idle_server, "/search?q=zebra")

    assert page.text("//p[@class='found']") == "No document was found by their words."
    assert "Try fewer or other words." in page.text("//div[@class='empty']")


@pytest.mark.parametrize("query", ["", "+", "%21%3F"])
def test_an_empty_search_is_answered_in_words(idle_server, look, query):
    page = look(idle_server, f"/search?q={query}", 400)

    assert page.text("//p[@role='alert']") == "Type a word to search for."


def test_a_search_of_10_kilobytes_is_answered_in_words_and_not_sent_back(idle_server, look):
    page = look(idle_server, f"/search?q={'a' * 10_000}", 400)

    assert "A search can have 1000 characters; this one has 10000." in page.text("//main")
    assert len(page.one("//input[@id='q']").get("value")) == 300


def test_a_mode_that_is_not_set_up_is_refused_in_words(idle_server, look):
    page = look(idle_server, "/search?q=otter&mode=semantic", 409)

    assert "Search by meaning is not set up here" in page.text("//p[@role='alert']")


def test_an_unknown_mode_is_ignored(idle_server, look):
    look(idle_server, "/search?q=otter&mode=telepathy")


def test_other_organisations_documents_are_not_found(server, look):
    server.wait(server.add(content=SENTENCE))
    other = server.member("other")

    assert hits(look(server, "/search?q=rivers", client=other)) == []


class ScriptedSearch:
    """Answers any query, with embeddings or without."""

    modes = (Mode.HYBRID, Mode.WORDS, Mode.SEMANTIC)

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    async def find(self, scope, query, limit, mode):
        self.asked.append(mode)
        return self.answer


@pytest.fixture
def with_modes(tmp_path, monkeypatch):
    """A function that starts a server whose search is scripted."""

    opened = []

    def start(answer):
        search = ScriptedSearch(answer)
        monkeypatch.setattr("holdfast_ingestion.app.Search", lambda *_: search)
        opened.append(DocumentServer(tmp_path, working=False))
        return opened[-1].__enter__(), search

    yield start
    for server in opened:
        server.__exit__()


def test_modes_are_offered_where_there_are_embeddings(with_modes, look):
    server, search = with_modes(SearchAnswer(Mode.SEMANTIC, False, []))

    page = look(server, "/search?q=otter&mode=semantic")

    assert page.all("//input[@name='mode']/@value") == ["hybrid", "words", "semantic"]
    assert page.one("//input[@name='mode'][@checked]").get("value") == "semantic"
    assert "by their meaning" in page.text("//p[@class='found']")
    assert search.asked == [Mode.SEMANTIC]


def test_a_search_that_had_to_do_without_meaning_says_so(with_modes, look):
    server, _ = with_modes(SearchAnswer(Mode.WORDS, True, []))

    page = look(server, "/search?q=otter")

    assert "so it was searched by words alone" in page.text("//p[@class='found']")
    assert page.one("//input[@name='mode'][@checked]").get("value") == "hybrid"


def test_a_full_page_of_hits_is_called_the_best():
    assert summary_of(SearchAnswer(Mode.HYBRID, False, [None] * search_page.MOST_HITS)) == (
        "The best 20 documents, found by their words and their meaning."
    )
    assert (
        summary_of(SearchAnswer(Mode.WORDS, False, [None] * 2))
        == "2 documents, found by their words."
    )


def test_pieces_are_the_text_with_its_places_marked():
    assert list(pieces_of("abcdef", ((1, 2), (4, 6)))) == [
        ("a", False), ("b", True), ("cd", False), ("ef", True),
    ]  # fmt: skip
    assert list(pieces_of("ab", ())) == [("ab", False)]
    assert list(pieces_of("ab", ((0, 2),))) == [("ab", True)]


def test_a_long_passage_is_shown_where_most_of_its_words_are():
    words = [f"word{number}" for number in range(300)]
    words[20] = words[200] = words[202] = words[205] = "otter"
    text = " ".join(words)
    places = tuple((at, at + 5) for at in range(len(text)) if text.startswith("otter", at))

    part, kept = shortened(text, places)

    assert len(part) <= 490
    assert part.startswith("… word")
    assert part.endswith(" …")
    assert [part[start:end] for start, end in kept] == ["otter"] * 3


@pytest.mark.parametrize("places", [(), ((0, 4),)])
def test_a_long_passage_is_shown_from_its_beginning_otherwise(places):
    part, kept = shortened("word " * 300, places)

    assert part.startswith("word word")
    assert part.endswith("word …")
    assert kept == places


def test_a_long_passage_without_blanks_is_cut_all_the_same():
    part, kept = shortened("a" * 2000, ((1000, 1004),), 100)

    assert len(part) <= 104
    assert kept in ((), ((81, 85),)) or kept[0][1] - kept[0][0] == 4
