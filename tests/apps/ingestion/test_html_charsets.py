"""HTML is stored as it reads, whatever its `meta` element declares and however it comes in."""

import asyncio

import pytest
from tests.apps.ingestion.world import World

WORDS = "Grüße aus Köln, wo die Straße am Fluß entlangführt."


def page(charset):
    return (
        f'<html><head><meta charset="{charset}"><title>Straße</title></head>'
        f"<body><article><h1>Straße</h1><p>{WORDS}</p></article></body></html>"
    )


async def by_json(world, charset):
    body = {"type": "html", "content": page(charset)}
    return await world.client.post("/v3/documents", json=body)


async def by_page(world, charset):
    fields = {"kind": "text", "type": "html", "content": page(charset)}
    parts = {name: (None, value) for name, value in fields.items()}
    return await world.client.post("/documents", files=parts)


async def by_file(world, charset, encoding, mark=b"", name="page.html"):
    file = {"file": (name, mark + page(charset).encode(encoding), "text/html")}
    return await world.client.post("/v3/documents", files=file)


async def by_nameless_file(world):
    head = (
        '--x\r\nContent-Disposition: form-data; name="file"; filename=""\r\n'
        "Content-Type: text/html\r\n\r\n"
    )
    body = head.encode() + page("iso-8859-1").encode("latin-1") + b"\r\n--x--\r\n"
    kind = {"content-type": "multipart/form-data; boundary=x"}
    return await world.client.post("/v3/documents", content=body, headers=kind)


WAYS = {
    "JSON": lambda world: by_json(world, "iso-8859-1"),
    "JSON that declares UTF-16": lambda world: by_json(world, "utf-16"),
    "the text form of the page": lambda world: by_page(world, "iso-8859-1"),
    "a file": lambda world: by_file(world, "iso-8859-1", "latin-1"),
    "a file without a name": by_nameless_file,
    "UTF-8 that declares UTF-16": lambda world: by_file(world, "utf-16", "utf-8"),
    "UTF-8 with a byte order mark": lambda world: by_file(
        world, "windows-1252", "utf-8", mark=b"\xef\xbb\xbf"
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_page_is_stored_as_it_reads(sqlite_url, tmp_path, way):
    async def scenario():
        async with World(sqlite_url, tmp_path) as world, world.working():
            answer = await WAYS[way](world)
            assert answer.status_code in {202, 303}, answer.text
            (document,) = (await world.client.get("/v3/documents")).json()["documents"]
            assert (await world.finished(document["id"]))["status"] == "done"
            content = await world.client.get(f"/v3/documents/{document['id']}/content")
            assert WORDS in content.json()["content"]

    asyncio.run(scenario())
