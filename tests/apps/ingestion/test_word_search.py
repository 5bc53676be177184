"""Full text search: the same rules on both databases, safe for any text."""

import asyncio
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.apps.ingestion.sites import site
from tests.apps.ingestion.world import World
from tests.support.postgres import migrated_database
from tests.support.waiting import until

from holdfast import Permanent
from holdfast_ingestion.word_search import Scope, marked_places, search_words, words_of

TEXTS = {
    "fox": "The quick brown fox jumps over the lazy dog near www.example.org/path/file.html.",
    "words": "Dogs are lazy. A quick nap, a brown bone, and a fox in a dream over the hill.",
    "shakespeare": "To be, or not to be, that is the question.",
    "german": "Die Straße nach Köln führt über den Fluß; user_name und C3PO-Roboter warten.",
    "french": "Un cafe\u0301 d\u00e9cafe\u0301ine\u0301 dans la cuisine.",
    "printed": "The \ufb01rst o\ufb03ce hires a type\u00adsetter.",
    "hindi": "यह हिन्दी में लिखा हुआ एक क्षत्रिय ग्रन्थ है।",
    "tamil": "தமிழ் மொழி பழமையானது.",
    "arabic": "كِتَاب جميل عن الطيور",
    "long": "Filler about nothing. " * 300 + "A needle hides here. " + "More filler. " * 300,
}
CASES = [
    ("quick brown fox", ["fox", "words"]),
    ("JUMPING dogs", ["fox", "words"]),
    ("example", ["fox"]),
    ("file.html", ["fox"]),
    ("to be or not to be", ["shakespeare"]),
    ("Straße", ["german"]),
    ("name", ["german"]),
    ("c3po", ["german"]),
    ("needle", ["long"]),
    ("nothingness-that-is-nowhere xyzzy", []),
    ("that", ["shakespeare"]),
    ("xyzzy", []),
    ("caf\u00e9", ["french"]),
    ("cafe\u0301", ["french"]),
    ("de\u0301cafe\u0301in\u00e9", ["french"]),
    ("cafe", []),
    ("first", ["printed"]),
    ("O\ufb03ce", ["printed"]),
    ("typesetters", ["printed"]),
    ("type\u00adsetter", ["printed"]),
    ("हिन्दी", ["hindi"]),
    ("ग्रन्थ क्षत्रिय", ["hindi"]),
    ("ह", []),
    ("न्द", []),
    ("மொழி", ["tamil"]),
    ("ழ", []),
    ("كِتَاب", ["arabic"]),
]
SIGNS = {
    "recipe": "Take ½ a cup of flour.",
    "square": "The area is x² here.",
    "letter": "The unknown is x here.",
    "turkey": "İstanbul lies on two continents.",
    "machine": "A message of a 🤖robot.",
}
DIFFERENT = [  # what is found on SQLite, and what on PostgreSQL
    ("½", ["recipe"], []),
    ("x²", ["square"], ["letter", "square"]),
    ("x", ["letter"], ["letter", "square"]),
    ("istanbul", [], ["turkey"]),
    ("İstanbul", ["turkey"], ["turkey"]),
    ("robot", [], ["machine"]),
]
HOSTILE = [
    '"', "'", "\\", '" OR 1=1 --', "NEAR(a b)", "text : x", "a* AND NOT b", "{text}: z", "%", "_",
    "'; DROP TABLE ingestion_chunks; --", "(((", "^a", "a & | ! b", "<->", ":*", "\x00\x01 a",
    "\ud800 a", "🦊 fox", "ﬁ", "-fox", "fox -brown", "x" * 999, "a " * 499,
]  # fmt: skip


@pytest.fixture
def utf8_postgres_url(postgres_server):
    """A database on PostgreSQL with a UTF-8 locale, as the README asks for."""
    name = migrated_database(postgres_server, characters="C.UTF-8", ingestion="holdfast_ingestion")
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


def found(url, tmp_path, queries, texts=TEXTS):
    async def run():
        async with World(url, tmp_path) as world:
            named = {}
            async with world.working():
                for name, text in texts.items():
                    named[await world.add(content=text, title=name)] = name
                for document_id in named:
                    await world.finished(document_id)
            database, scope = world.engine.database, Scope("local")
            return [await _attempt(database, scope, query) for query in queries]

    return asyncio.run(run())


async def _attempt(database, scope, query):
    try:
        return await search_words(database, scope, query, 10)
    except Permanent as refused:
        return refused.code


@pytest.mark.parametrize("database", ["sqlite_url", "postgres_url", "utf8_postgres_url"])
def test_words_are_found_by_the_same_rules_on_both_databases(request, tmp_path, database):
    url = request.getfixturevalue(database)
    answers = found(url, tmp_path, [query for query, _ in CASES])

    for (query, expected), hits in zip(CASES, answers, strict=True):
        titles = [hit.title for hit in hits]
        assert titles[: len(expected)] == expected, query
        assert expected or not titles, query


@pytest.mark.parametrize("database", ["sqlite_url", "utf8_postgres_url"])
def test_the_databases_differ_in_signs_that_are_hardly_letters(request, tmp_path, database):
    url = request.getfixturevalue(database)
    answers = found(url, tmp_path, [query for query, *_ in DIFFERENT], SIGNS)

    for (query, on_sqlite, on_postgres), hits in zip(DIFFERENT, answers, strict=True):
        expected = on_sqlite if database == "sqlite_url" else on_postgres
        assert sorted(hit.title for hit in hits) == expected, query


def test_a_long_document_hides_no_other(database_url, tmp_path):
    async def run():
        async with World(database_url, tmp_path) as world, world.working():
            many = "\n\n".join(f"{'A zebra grazes here. ' * 40}Zebra {n}." for n in range(12))
            added = [await world.add(content=many), await world.add(content="One zebra, and " * 9)]
            for document_id in added:
                await world.finished(document_id)
            assert len(await world.chunks(added[0])) > 8
            hits = await world.search("zebra", limit=2)
            assert {hit["documentId"] for hit in hits} == set(added)

    asyncio.run(run())


def test_a_document_is_found_by_its_title_with_its_first_passage(database_url, tmp_path):
    async def run():
        async with World(database_url, tmp_path) as world, site() as web:
            text = "\n\n".join(f"Part {n}. " + "They hop about at night. " * 40 for n in range(3))
            async with world.working():
                named = await world.add(content=text, title="Quokka guide")
                other = await world.add(content=f"{text} Here a quokka eats.", title="Else")
                page = await world.add(url=web.html("/", "Wombats", "They dig."))
                for document_id in (named, other, page):
                    await world.finished(document_id)
                assert await titles(world, "QUOKKAS") == ["Else", "Quokka guide"]
                (hit,) = await world.search("guide")
                assert (hit["position"], hit["highlights"]) == (0, [])
                assert "Quokka" not in hit["passage"]
                assert set(await titles(world, "quokka hop")) == {"Quokka guide", "Else"}
                assert await titles(world, "wombat") == ["Wombats"]

                web.html("/", "Echidnas", "They dig still.")
                await world.client.post(f"/v3/documents/{page}/refresh")
                await until(lambda: titles(world, "echidna"))
                assert await titles(world, "wombat") == []
            await world.client.delete(f"/v3/documents/{named}")
            assert await titles(world, "guide") == []

    asyncio.run(run())


async def titles(world, query):
    return [hit["title"] for hit in await world.search(query)]


def test_highlights_and_offsets_say_where_the_words_are(database_url, tmp_path):
    queries = ["example", "needle", "de\u0301cafe\u0301in\u00e9", "first", "ग्रन्थ"]
    fox, needle, *others = (hits[0] for hits in found(database_url, tmp_path, queries))

    assert [fox.passage[start:end] for start, end in fox.highlights] == ["example"]
    assert [needle.passage[start:end] for start, end in needle.highlights] == ["needle"]
    marked = [[hit.passage[start:end] for start, end in hit.highlights] for hit in others]
    assert marked == [["d\u00e9caf\u00e9in\u00e9"], ["first"], ["ग्रन्थ"]]
    assert len(needle.passage) < 1300
    assert needle.end - needle.start == len(needle.passage)


def test_no_text_breaks_a_search(database_url, tmp_path):
    for answer in found(database_url, tmp_path, HOSTILE):
        assert answer == "EMPTY_SEARCH" or isinstance(answer, list)


@given(st.text(max_size=50))
def test_words_have_letters_digits_and_marks_only(query):
    words = words_of(f"{query} fox")

    assert words[-1] == "fox"
    assert all(any(map(str.isalnum, word)) for word in words)
    kinds = {category(char)[0] for word in words for char in word}
    assert kinds <= set("LNM")


def test_marks_without_a_letter_are_no_word():
    assert words_of("\u2764\ufe0f fox \u0301") == ["fox"]


def test_a_query_of_ten_kilobytes_is_refused():
    with pytest.raises(Permanent) as refused:
        words_of("word " * 2048)
    assert refused.value.code == "SEARCH_TOO_LONG"


def test_marks_become_places():
    assert marked_places("a \x02fox\x03 and \x02dog\x03") == ((2, 5), (10, 13))
    assert marked_places("nothing") == ()


def test_a_score_says_nothing_but_the_rank(database_url, tmp_path):
    (hits,) = found(database_url, tmp_path, ["quick brown fox"])
    assert [hit.score for hit in hits] == [1 / 61, 1 / 62]
