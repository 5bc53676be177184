"""Metadata: what is refused, and what an earlier release has stored."""

import asyncio
import json
import random

import pytest
from tests.apps.ingestion.world import World

from holdfast.http import ApiError
from holdfast_ingestion.metadata import (
    MOST_LEVELS,
    checked_metadata,
    filter_spellings,
    parsed_metadata,
    stored_metadata,
)


def nested(levels):
    """Return JSON of an object that is nested `levels` deep, itself included."""
    return '{"deep": ' + "[" * (levels - 1) + "]" * (levels - 1) + ', "team": "blue"}'


@pytest.mark.parametrize(
    ("levels", "as_form"),
    [(MOST_LEVELS + 1, False), (256, False), (900, False), (MOST_LEVELS + 1, True), (5000, True)],
)
def test_metadata_that_is_nested_too_deeply_is_refused_with_the_limit(
    sqlite_url, tmp_path, levels, as_form
):
    async def scenario():
        async with World(sqlite_url, tmp_path) as world:
            if as_form:
                answer = await world.client.post(
                    "/v3/documents",
                    files={"file": ("a.txt", b"words", "text/plain")},
                    data={"metadata": nested(levels)},
                )
            else:
                body = f'{{"content": "words", "metadata": {nested(levels)}}}'
                answer = await world.client.post("/v3/documents", content=body)
            assert answer.status_code == 422, answer.text
            assert "20 levels" in answer.json()["error"]["message"]

    asyncio.run(scenario())


def test_twenty_levels_are_taken_in():
    assert checked_metadata(json.loads(nested(MOST_LEVELS)))["team"] == "blue"
    assert checked_metadata({"brackets": '[{"' * 40}) == {"brackets": '[{"' * 40}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_not_finite_is_refused(number):
    with pytest.raises(ApiError, match="must be finite") as refused:
        checked_metadata(parsed_metadata(f'{{"size": [{number}]}}'))
    assert refused.value.status == 422


def test_what_was_stored_before_the_limit_does_not_break_the_list(database_url, tmp_path):
    """Also metadata that was stored so deep that Python cannot parse it."""

    async def scenario():
        async with World(database_url, tmp_path) as world:
            ids = [await world.add(content=f"Text {n}.") for n in range(3)]
            table = "ingestion_documents" if is_sqlite(world) else "ingestion.documents"
            stored = [nested(300), nested(5000), '{"size": NaN}']
            async with world.engine.database.transaction() as tx:
                for document_id, text in zip(ids, stored, strict=True):
                    await tx.fetch(
                        f"UPDATE {table} SET metadata = :text WHERE id = :id",
                        {"text": text, "id": document_id},
                    )
            listed = (await world.client.get("/v3/documents")).json()["documents"]
            found = {each["id"]: each["metadata"] for each in listed}
            expected = [{"json": stored[0]}, {"json": stored[1]}, {"size": None}]
            assert [found[each] for each in ids] == expected
            page = await world.client.get("/documents", headers={"accept": "text/html"})
            assert page.status_code == 200

    asyncio.run(scenario())


def is_sqlite(world):
    return world.engine.database.dialect == "sqlite"


def test_shallow_metadata_is_read_as_it_was_given():
    assert stored_metadata('{"a": {"b": [1]}}') == {"a": {"b": [1]}}


def test_a_value_may_be_as_long_as_the_limit_allows(database_url, tmp_path):
    """It is random, so that no database can compress it."""
    note = random.Random(1).randbytes(15 * 512).hex()

    async def scenario():
        async with World(database_url, tmp_path) as world:
            document_id = await world.add(content="words", metadata={"note": note})
            found = await world.client.get("/v3/documents", params={"metadata": f"note:{note}"})
            (document,) = found.json()["documents"]
            assert (document["id"], document["metadata"]) == (document_id, {"note": note})

    asyncio.run(scenario())


@pytest.mark.parametrize("text", ["\\u0000", "a\\\\u0000", "\\", "\\\\"])
def test_text_that_only_looks_like_an_escaped_nul_is_taken_in(text):
    assert checked_metadata({text: [text]}) == {text: [text]}


@pytest.mark.parametrize("text", ["\0", "a\\\0b", "\\\\\0", "\ud800"])
def test_a_character_that_cannot_be_stored_is_refused(text):
    for metadata in ({text: 1}, {"key": [text]}):
        with pytest.raises(ApiError, match="cannot be stored"):
            checked_metadata(metadata)


# -- filters -------------------------------------------------------------------------------------

NFC, NFD = "Ren\u00e9", "Rene\u0301"
STORED = {
    "colon": {"a:b": "c"},
    "first colon": {"a": "b:c:d"},
    "leading colon": {":b": "c"},
    "decomposed": {"auteur": NFD},
    "composed": {"author": NFC},
    "key": {NFD: 1},
    "list": {"l": [1, 2.0, NFD]},
    "object": {"o": {"b": 1, "a": [True, None]}},
    "keys": {"p": {"e\u0301": 1, "f": 2}},
    "whole": {"f": 1.0},
    "fraction": {"g": 1.5},
    "blanks": {"h": " x "},
    "long": {"i": "word " * 100},
    "literal": {"j": "\\u0000"},
}
ASKED = [
    ("a:b:c", ["colon"]),
    ("a:b: c", ["colon"]),
    ("a:b:c:d", ["first colon"]),
    (" a : b:c:d ", ["first colon"]),
    (":b:c", ["leading colon"]),
    (f"auteur:{NFC}", ["decomposed"]),
    (f"auteur:{NFD}", ["decomposed"]),
    (f"author:{NFD}", ["composed"]),
    (f"{NFC}:1", ["key"]),
    (f'l:[1,2,"{NFC}"]', ["list"]),
    (f'l:[1, 2.0, "{NFD}"]', ["list"]),
    ('o:{"a":[true,null],"b":1.0}', ["object"]),
    ('p:{"\u00e9":1,"f":2}', ["keys"]),
    ("f:1", ["whole"]),
    ("f:1.0", ["whole"]),
    ("f:1.00", ["whole"]),
    ("g:1.5", ["fraction"]),
    ("h: x ", ["blanks"]),
    ("i:" + "word " * 100, ["long"]),
    ("j:\\u0000", ["literal"]),
    ("f:2", []),
    ("f:" + "[" * 5000, []),
    ("f:" + "1" * 5000, []),
    ("f:NaN", []),
    ("f:1e999", []),
    ('f:["\\ud800\\u0000"]', []),
]


def test_what_is_stored_is_found_by_the_api_and_by_the_page(database_url, tmp_path):
    async def scenario():
        async with World(database_url, tmp_path) as world:
            for name, metadata in STORED.items():
                await world.add(content=name, title=name, metadata=metadata)
            for text, expected in ASKED:
                answer = await world.client.get("/v3/documents", params={"metadata": text})
                titles = [each["title"] for each in answer.json()["documents"]]
                assert titles == expected, text
                page = await world.client.get("/documents", params={"metadata": text})
                shown = [name for name in STORED if f"<bdi>{name}</bdi></a>" in page.text]
                assert shown == expected, text

    asyncio.run(scenario())


def test_metadata_from_before_an_update_is_found_as_it_was_given(database_url, tmp_path):
    """It is stored in the spelling in which it came."""
    rows = {f"auteur:{NFD}": NFD, "auteur:1.0": "1.0", "auteur:[1,2]": "[1, 2]"}

    async def scenario():
        async with World(database_url, tmp_path) as world:
            document_id = await world.add(content="words", metadata={"auteur": "x"})
            table = "ingestion_metadata" if is_sqlite(world) else "ingestion.metadata"
            for asked, stored in rows.items():
                async with world.engine.database.transaction() as tx:
                    await tx.fetch(f"UPDATE {table} SET value = :value", {"value": stored})
                answer = await world.client.get("/v3/documents", params={"metadata": asked})
                assert [each["id"] for each in answer.json()["documents"]] == [document_id]

    asyncio.run(scenario())


def test_a_filter_with_many_colons_is_read_in_little_time():
    assert len(filter_spellings("[:" * 8000)) < 500


@pytest.mark.parametrize("keys", [(NFC, NFD), ("\u00ad",)])
def test_keys_that_filters_cannot_tell_apart_are_refused(keys):
    with pytest.raises(ApiError, match="of metadata"):
        checked_metadata(dict.fromkeys(keys, 1))
