"""`/v3`: what callers may ask for, and what they are refused."""

import asyncio
import hashlib
import json
import threading

import pytest
from tests.apps.ingestion.sites import site
from tests.apps.ingestion.world import World
from tests.support.waiting import until

from holdfast import OwnerLimits
from holdfast_ingestion import intake, request_body, submission
from holdfast_ingestion.repository import Documents

MEBIBYTE = 1024 * 1024


def with_world(url, tmp_path, scenario, **settings):
    async def run():
        async with World(url, tmp_path, **settings) as world:
            await scenario(world)

    asyncio.run(run())


def error_of(answer):
    error = answer.json()["error"]
    assert error["message"]
    return answer.status_code, error["code"]


# -- bad input -----------------------------------------------------------------------------------

BAD_BODIES = [
    ({"url": "not a url"}, 400, "URL_INVALID"),
    ({"url": ""}, 400, "URL_INVALID"),
    ({"url": "ftp://example.org/x"}, 400, "URL_INVALID"),
    ({"url": "file:///etc/passwd"}, 400, "URL_INVALID"),
    ({"url": "http://user:word@example.org/"}, 400, "URL_INVALID"),
    ({"url": "http://10.255.255.1", "type": "url"}, 422, "URL_REFUSED"),
    ({"url": "http://0x7f.2/"}, 422, "URL_REFUSED"),
    ({"url": "http://example.org:25/"}, 422, "URL_REFUSED"),
    ({"url": "http://example.org/", "type": "pdf"}, 422, "VALIDATION_ERROR"),
    ({"url": "http://example.org/", "content": "both"}, 422, "VALIDATION_ERROR"),
    ({}, 422, "VALIDATION_ERROR"),
    ({"content": ""}, 400, "EMPTY_CONTENT"),
    ({"content": " \n\t "}, 400, "EMPTY_CONTENT"),
    ({"content": "\x00\x01"}, 400, "EMPTY_CONTENT"),
    ({"content": "words", "type": "spreadsheet"}, 415, "UNSUPPORTED_TYPE"),
    ({"content": "words", "type": "pdf"}, 415, "UNSUPPORTED_TYPE"),
    ({"content": "x" * (MEBIBYTE + 1)}, 413, "TOO_LARGE"),
    ({"content": "words", "colour": "red"}, 422, "VALIDATION_ERROR"),
    ({"content": 7}, 422, "VALIDATION_ERROR"),
    ({"content": "words", "orgId": "x" * 201}, 422, "VALIDATION_ERROR"),
    ({"content": "words", "orgId": "a\nb"}, 422, "VALIDATION_ERROR"),
    ({"content": "words", "metadata": [1]}, 422, "VALIDATION_ERROR"),
    ({"content": "words", "metadata": {"": 1}}, 422, "VALIDATION_ERROR"),
    ({"content": "words", "metadata": {"k": "\x00"}}, 422, "VALIDATION_ERROR"),
    ({"content": "words", "metadata": {"k": "\ud800"}}, 422, "VALIDATION_ERROR"),
    ({"content": "words", "metadata": {"k": "x" * 20_000}}, 422, "VALIDATION_ERROR"),
    ([], 422, "VALIDATION_ERROR"),
]


def test_a_body_that_cannot_be_taken_in_is_refused_with_a_code_and_a_line(sqlite_url, tmp_path):
    async def scenario(world):
        found = []
        for body, _, _ in BAD_BODIES:
            answer = await world.client.post(
                "/v3/documents",
                content=json.dumps(body),
                headers={"content-type": "application/json"},
            )
            found.append((body, *error_of(answer)))
        assert found == BAD_BODIES
        assert (await world.client.get("/v3/documents")).json()["documents"] == []

    with_world(sqlite_url, tmp_path, scenario, max_bytes=MEBIBYTE)


def test_a_field_that_does_not_exist_is_named_as_such(sqlite_url, tmp_path):
    async def scenario(world):
        answer = await world.client.post("/v3/documents", json={"text": "words"})
        line = "The request cannot be understood: there is no field text."
        assert answer.json()["error"]["message"] == line

    with_world(sqlite_url, tmp_path, scenario)


def test_a_wrong_type_is_answered_with_those_that_are_possible(sqlite_url, tmp_path):
    async def scenario(world):
        for name in ("url", "tar"):
            body = {"content": "x", "type": name}
            answer = await world.client.post("/v3/documents", json=body)
            line = f"The type of content cannot be '{name}'; choose text, markdown or html."
            assert answer.json()["error"]["message"] == line
            file = {"file": ("a.txt", b"words", "text/plain")}
            answer = await world.client.post("/v3/documents", files=file, data={"type": name})
            line = (
                f"The type of a file cannot be '{name}'; choose text, markdown, html, pdf or docx."
            )
            assert answer.json()["error"]["message"] == line

    with_world(sqlite_url, tmp_path, scenario)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_json_is_refused(sqlite_url, tmp_path, body):
    async def scenario(world):
        answer = await world.client.post("/v3/documents", content=body)
        assert error_of(answer) == (400, "VALIDATION_ERROR")

    with_world(sqlite_url, tmp_path, scenario)


def test_a_number_that_is_too_long_is_called_that(sqlite_url, tmp_path):
    long = '{"size": 1%s}' % ("0" * 5000)

    async def scenario(world):
        body = f'{{"content": "words", "metadata": {long}}}'
        answer = await world.client.post("/v3/documents", content=body)
        assert error_of(answer) == (422, "VALIDATION_ERROR")
        assert "digits" in answer.json()["error"]["message"]
        file = {"file": ("a.txt", b"words", "text/plain")}
        form = await world.client.post("/v3/documents", files=file, data={"metadata": long})
        assert form.json() == answer.json()

    with_world(sqlite_url, tmp_path, scenario)


def test_a_body_is_not_read_beyond_the_limit(sqlite_url, tmp_path):
    async def endless():
        while True:
            yield b"x" * 65_536

    async def scenario(world):
        answer = await world.client.post("/v3/documents", content=endless())
        assert error_of(answer) == (413, "TOO_LARGE")

    with_world(sqlite_url, tmp_path, scenario, max_bytes=MEBIBYTE)


def test_a_file_and_a_text_may_be_as_large_as_the_limit_of_documents_says(sqlite_url, tmp_path):
    """Not only as large as other requests may be: 1 MiB."""

    async def scenario(world):
        text = "words of a page. " * 200_000
        file = {"file": ("large.txt", text.encode(), "text/plain")}
        uploaded = await world.client.post("/v3/documents", files=file)
        given = await world.client.post("/v3/documents", json={"content": "more " + text})
        assert [uploaded.status_code, given.status_code] == [202, 202]

    with_world(sqlite_url, tmp_path, scenario)


BAD_FILES = [
    (("a.xyz", b"words", "application/x-thing"), {}, 415, "UNSUPPORTED_TYPE"),
    (("a.pdf", b"no pdf", "application/pdf"), {}, 415, "UNSUPPORTED_TYPE"),
    (("a.docx", b"no docx", "application/zip"), {}, 415, "UNSUPPORTED_TYPE"),
    (("a.txt", b"", "text/plain"), {}, 400, "EMPTY_CONTENT"),
    (("a.txt", b"x" * (MEBIBYTE + 1), "text/plain"), {}, 413, "TOO_LARGE"),
    (("a.txt", b"words", "text/plain"), {"type": "tar"}, 415, "UNSUPPORTED_TYPE"),
    (("a.txt", b"words", "text/plain"), {"metadata": "{"}, 422, "VALIDATION_ERROR"),
]


def test_a_file_that_cannot_be_read_is_refused(sqlite_url, tmp_path):
    async def scenario(world):
        found = []
        for file, fields, _, _ in BAD_FILES:
            answer = await world.client.post("/v3/documents", files={"file": file}, data=fields)
            found.append((file, fields, *error_of(answer)))
        assert found == BAD_FILES
        no_file = await world.client.post("/v3/documents", files={"other": ("a.txt", b"words")})
        assert error_of(no_file) == (400, "VALIDATION_ERROR")

    with_world(sqlite_url, tmp_path, scenario, max_bytes=MEBIBYTE)


@pytest.mark.parametrize("name", ["foo", "url", "content"])
def test_a_field_of_a_form_that_does_not_exist_is_named_as_such(sqlite_url, tmp_path, name):
    async def scenario(world):
        file = {"file": ("a.txt", b"words", "text/plain")}
        answer = await world.client.post("/v3/documents", files=file, data={name: "bar"})
        assert error_of(answer) == (422, "VALIDATION_ERROR")
        line = f"The request cannot be understood: there is no field {name} beside a file."
        assert answer.json()["error"]["message"] == line
        answer = await world.client.post("/v3/documents", files=file, data={"\x02 ": "bar"})
        assert error_of(answer) == (422, "VALIDATION_ERROR")

    with_world(sqlite_url, tmp_path, scenario)


def test_documents_are_hashed_beside_the_event_loop(sqlite_url, tmp_path, monkeypatch):
    hashed_in = []

    class Noted:
        @staticmethod
        def sha256(data):
            hashed_in.append(threading.current_thread())
            return hashlib.sha256(data)

    monkeypatch.setattr(submission, "hashlib", Noted)
    monkeypatch.setattr(intake, "hashlib", Noted)

    async def scenario(world):
        file = {"file": ("a.txt", b"words", "text/plain")}
        assert (await world.client.post("/v3/documents", files=file)).status_code == 202
        await world.add(content="other words")
        assert len(hashed_in) >= 3
        assert threading.main_thread() not in hashed_in

    with_world(sqlite_url, tmp_path, scenario)


@pytest.mark.parametrize(
    "path, status, code",
    [
        ("/v3/search", 400, "EMPTY_SEARCH"),
        ("/v3/search?q=%20", 400, "EMPTY_SEARCH"),
        ("/v3/search?q=...", 400, "EMPTY_SEARCH"),
        ("/v3/search?q=" + "word+" * 2000, 400, "SEARCH_TOO_LONG"),
        ("/v3/search?q=word&mode=telepathy", 422, "VALIDATION_ERROR"),
        ("/v3/search?q=word&limit=0", 422, "VALIDATION_ERROR"),
        ("/v3/search?q=word&orgId=%00", 422, "VALIDATION_ERROR"),
        ("/v3/documents?cursor=elsewhere", 422, "VALIDATION_ERROR"),
        ("/v3/documents?status=lost", 422, "VALIDATION_ERROR"),
        ("/v3/documents?metadata=team", 422, "VALIDATION_ERROR"),
        ("/v3/documents?type=%00", 422, "VALIDATION_ERROR"),
        ("/v3/documents/unknown", 403, "FORBIDDEN"),
        ("/v3/documents/" + "0" * 32, 403, "FORBIDDEN"),
        ("/v3/documents/%00", 403, "FORBIDDEN"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(sqlite_url, tmp_path, path, status, code):
    async def scenario(world):
        assert error_of(await world.client.get(path)) == (status, code)

    with_world(sqlite_url, tmp_path, scenario)


# -- adding --------------------------------------------------------------------------------------


def test_the_same_content_twice_is_one_document(database_url, tmp_path):
    async def scenario(world):
        first = await world.client.post("/v3/documents", json={"content": "One of a kind."})
        again = await world.client.post("/v3/documents", json={"content": "One of a kind."})
        other = await world.client.post("/v3/documents", json={"content": "Another one."})
        part = await world.client.post(
            "/v3/documents", json={"content": "One of a kind.", "orgId": "part"}
        )

        assert (first.status_code, again.status_code) == (202, 200)
        assert first.json()["id"] == again.json()["id"]
        assert again.json()["deduplicated"] is True
        assert len({each.json()["id"] for each in (first, other, part)}) == 3

    with_world(database_url, tmp_path, scenario)


def test_two_spellings_of_one_address_are_one_document(sqlite_url, tmp_path):
    async def scenario(world):
        urls = ("http://Site.example:80", " http://site.example/#part", "http://site.example/")
        assert len({await world.add(url=url) for url in urls}) == 1
        assert await world.add(url="https://site.example/") != await world.add(url=urls[0])

    with_world(sqlite_url, tmp_path, scenario)


def test_adding_a_failed_document_again_retries_it(database_url, tmp_path):
    async def scenario(world):
        async with site() as web, world.working():
            url = web.status("/", 404)
            document_id = await world.add(url=url)
            await world.finished(document_id)
            web.text("/", "It is there now.")

            twice = {"documents": [{"url": url}, {"url": url}]}
            answer = await world.client.post("/v3/documents/batch", json=twice)
            assert {each["id"] for each in answer.json()["documents"]} == {document_id}
            assert (await world.finished(document_id))["status"] == "done"

    with_world(database_url, tmp_path, scenario)


def test_the_same_twice_in_a_batch_is_one_document_with_one_job(database_url, tmp_path):
    async def scenario(world):
        batch = {"documents": [{"content": text} for text in ("Twice.", "Once.", "Twice.")]}
        answer = await world.client.post("/v3/documents/batch", json=batch)
        first, other, again = answer.json()["documents"]
        assert [first["id"], first["status"]] == [again["id"], again["status"]]
        assert (first.get("deduplicated"), again["deduplicated"]) == (False, True)
        assert other["id"] != first["id"]
        async with world.working():
            for each in (first, other):
                assert (await world.finished(each["id"]))["status"] == "done"
        assert (await world.engine.stats()).lanes[0].complete == 2

    with_world(database_url, tmp_path, scenario)


def test_documents_added_at_the_same_moment_are_one(database_url, tmp_path):
    async def scenario(world):
        adding = [world.add(content="Everyone posts this.") for _ in range(5)]
        assert len(set(await asyncio.gather(*adding))) == 1

    with_world(database_url, tmp_path, scenario)


def test_a_batch_is_taken_in_as_a_whole_or_not_at_all(database_url, tmp_path):
    async def scenario(world):
        good = [{"content": f"Document {number}."} for number in range(3)]
        answer = await world.client.post("/v3/documents/batch", json={"documents": good})
        assert answer.status_code == 202
        assert len({each["id"] for each in answer.json()["documents"]}) == 3

        bad = {"documents": [{"content": "Fourth."}, {"url": "nonsense"}]}
        answer = await world.client.post("/v3/documents/batch", json=bad)
        assert error_of(answer) == (400, "URL_INVALID")
        assert answer.json()["error"]["message"].startswith("Document 2: ")
        for documents in ([], [{"content": "x"}] * 101):
            answer = await world.client.post("/v3/documents/batch", json={"documents": documents})
            assert error_of(answer) == (422, "VALIDATION_ERROR")
        assert len((await world.client.get("/v3/documents")).json()["documents"]) == 3

    with_world(database_url, tmp_path, scenario)


# -- listing -------------------------------------------------------------------------------------


def test_documents_are_listed_newest_first_with_filters_and_a_cursor(database_url, tmp_path):
    async def listed(world, **filters):
        answer = await world.client.get("/v3/documents", params=filters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def scenario(world):
        added = []
        for number in range(5):
            team = "blue" if number % 2 else "red"
            added.append(
                await world.add(
                    content=f"Document {number}.",
                    metadata={"team": team, "number": number, "draft": number == 3},
                    orgId="north" if number < 2 else "south",
                )
            )
            await asyncio.sleep(0.002)  # ids grow by the millisecond
        url = await world.add(url="http://site.example/")

        def ids(answer):
            return [each["id"] for each in answer["documents"]]

        first = await listed(world, limit=4)
        rest = await listed(world, limit=4, cursor=first["nextCursor"])
        assert ids(first) + ids(rest) == [url, *reversed(added)]
        assert rest["nextCursor"] is None
        assert ids(await listed(world, metadata="team:blue")) == [added[3], added[1]]
        assert ids(await listed(world, metadata=["team:blue", "draft:true"])) == [added[3]]
        assert ids(await listed(world, metadata="number:2")) == [added[2]]
        assert ids(await listed(world, orgId="north")) == [added[1], added[0]]
        assert ids(await listed(world, type="url")) == [url]
        for spelling in ("http://site.example/", "http://site.example", "HTTP://Site.Example:80"):
            assert ids(await listed(world, url=spelling)) == [url]
        assert ids(await listed(world, url="no address")) == []
        assert len(ids(await listed(world, status=["queued", "done"]))) == 6
        assert ids(await listed(world, status="failed")) == []
        await world.engine.cancel(f"doc-{url}")
        assert ids(await listed(world, status="failed")) == [url]

    with_world(database_url, tmp_path, scenario)


# -- organisations -------------------------------------------------------------------------------


def test_an_organisation_sees_and_changes_only_its_own(database_url, tmp_path):
    async def scenario(world):
        acme, rival = await world.with_key("acme"), await world.with_key("rival")
        colleague = await world.with_key("acme", owner="a colleague")
        async with world.working():
            document_id = await world.add(acme, content="A secret recipe.", orgId="kitchen")
            await until(lambda: is_done(world, acme, document_id))

        assert len(await world.search("recipe", colleague)) == 1
        assert len(await world.search("recipe", colleague, orgId="kitchen")) == 1
        assert await world.search("recipe", colleague, orgId="cellar") == []
        for other in (rival, world.client, await world.browser(host="203.0.113.9")):
            assert await world.search("recipe", other) == []
            assert await world.search("recipe", other, orgId="acme") == []
            assert (await other.get("/v3/documents")).json()["documents"] == []
            path = f"/v3/documents/{document_id}"
            for refused in (
                await other.get(path),
                await other.get(f"{path}/content"),
                await other.post(f"{path}/retry"),
                await other.post(f"{path}/refresh"),
                await other.delete(path),
            ):
                assert error_of(refused) == (403, "FORBIDDEN")
        assert await world.add(rival, content="A secret recipe.", orgId="kitchen") != document_id
        wrong = await world.browser(authorization="Bearer hf_wrong")
        assert (await wrong.get("/v3/documents")).status_code == 401

    with_world(database_url, tmp_path, scenario)


async def is_done(world, client, document_id):
    return (await world.show(document_id, client))["status"] == "done"


# -- changing ------------------------------------------------------------------------------------


def test_a_deleted_document_leaves_nothing_behind(database_url, tmp_path):
    async def scenario(world):
        files = world.app.files
        async with world.working():
            answer = await world.client.post(
                "/v3/documents",
                files={"file": ("a.md", b"# Swans\n\nThey glide.", "text/markdown")},
                data={"metadata": '{"team": "blue"}'},
            )
            document_id = answer.json()["id"]
            assert (await world.finished(document_id))["title"] == "Swans"
        assert files.find(f"documents/{document_id}") is not None

        assert (await world.client.delete(f"/v3/documents/{document_id}")).status_code == 204
        assert error_of(await world.client.delete(f"/v3/documents/{document_id}"))[0] == 403
        assert await world.search("swans") == []
        assert await world.chunks(document_id) == []
        assert files.find(f"documents/{document_id}") is None
        listed = await world.client.get("/v3/documents?metadata=team:blue")
        assert listed.json()["documents"] == []

    with_world(database_url, tmp_path, scenario)


def test_only_failed_documents_are_retried_and_only_done_ones_refreshed(sqlite_url, tmp_path):
    async def scenario(world):
        document_id = await world.add(url="http://site.example/")
        for change in ("retry", "refresh"):
            answer = await world.client.post(f"/v3/documents/{document_id}/{change}")
            assert error_of(answer) == (409, "INVALID_STATE")
        async with world.working():
            text = await world.add(content="No address.")
            await world.finished(text)
        for change in ("retry", "refresh"):
            answer = await world.client.post(f"/v3/documents/{text}/{change}")
            assert error_of(answer) == (409, "INVALID_STATE")
        await world.engine.cancel(f"doc-{document_id}")
        answer = await world.client.post(f"/v3/documents/{document_id}/retry")
        assert error_of(answer) == (409, "INVALID_STATE")

    with_world(sqlite_url, tmp_path, scenario)


def test_the_jobs_of_documents_are_their_owners(sqlite_url, tmp_path):
    async def scenario(world):
        document_id = await world.add(url="http://site.example/page")
        job = (await world.client.get(f"/api/jobs/doc-{document_id}")).json()["job"]

        assert job["documentId"] == document_id
        assert job["source"] == "site.example"
        openapi = (await world.client.get("/api/openapi.json")).json()
        assert "/v3/documents/{document_id}" in openapi["paths"]

    with_world(sqlite_url, tmp_path, scenario)


def test_a_host_with_a_long_name_has_a_downstream_of_its_own(sqlite_url, tmp_path):
    async def scenario(world):
        long = ".".join(["a" * 60] * 4)
        for number in range(2):
            await world.add(url=f"http://{number}{long}/")
        await until(lambda: has_downstreams(world, 2))
        names = [name for name in await world.engine.downstreams.states() if "~" in name]
        assert len(names) == 2

    with_world(sqlite_url, tmp_path, scenario)


async def has_downstreams(world, count):
    return len(await world.engine.downstreams.states()) >= count


def test_a_body_that_does_not_arrive_is_not_waited_for(sqlite_url, tmp_path, monkeypatch):
    monkeypatch.setattr(request_body, "_SECONDS", 0.05)

    async def slow():
        yield b"{"
        await asyncio.sleep(60)
        yield b"}"

    async def scenario(world):
        answer = await world.client.post("/v3/documents", content=slow())
        assert error_of(answer) == (408, "TIMEOUT")

    with_world(sqlite_url, tmp_path, scenario)


def test_a_form_that_is_broken_is_refused(sqlite_url, tmp_path):
    async def scenario(world):
        for kind in ("multipart/form-data", "multipart/form-data; boundary=x"):
            answer = await world.client.post(
                "/v3/documents", content=b"--x\r\nbroken", headers={"content-type": kind}
            )
            assert error_of(answer) == (400, "VALIDATION_ERROR")

    with_world(sqlite_url, tmp_path, scenario)


def test_a_disk_that_fails_is_no_acknowledgement(sqlite_url, tmp_path):
    async def scenario(world):
        world.app.files.root.rename(tmp_path / "elsewhere")
        world.app.files.root.write_text("a file in the place of the folder")
        file = {"file": ("a.html", b"<p>words</p>", "text/html")}
        answer = await world.client.post("/v3/documents", files=file)
        assert error_of(answer) == (503, "IO_ERROR")
        assert (await world.client.get("/v3/documents")).json()["documents"] == []

    with_world(sqlite_url, tmp_path, scenario)


def test_an_upload_whose_file_is_gone_fails_for_good(sqlite_url, tmp_path):
    async def scenario(world):
        file = {"file": ("a.html", b"<p>words</p>", "text/html")}
        answer = await world.client.post("/v3/documents", files=file)
        document_id = answer.json()["id"]
        world.app.files.delete(f"documents/{document_id}")
        async with world.working():
            document = await world.finished(document_id)
        assert (document["failedCode"], document["attemptsMade"]) == ("EXPIRED", 1)

    with_world(sqlite_url, tmp_path, scenario)


def test_a_batch_reports_a_document_that_cannot_be_retried_as_it_is(database_url, tmp_path):
    async def scenario(world):
        cancelled = await world.add(content="Cancelled.")
        await world.engine.cancel(f"doc-{cancelled}")

        batch = {"documents": [{"content": "Cancelled."}, {"content": "New."}]}
        answer = await world.client.post("/v3/documents/batch", json=batch)

        assert answer.status_code == 202, answer.text
        first, second = answer.json()["documents"]
        assert (first["id"], first["status"]) == (cancelled, "failed")
        assert second["status"] == "queued"

    with_world(database_url, tmp_path, scenario)


def test_documents_are_added_in_one_order_and_again_where_a_twin_was_deleted(
    sqlite_url, tmp_path, monkeypatch
):
    add, keys = Documents.add, []

    async def in_the_way_at_first(self, tx, new, now):
        keys.append(new.source_key)
        return len(keys) > 1 and await add(self, tx, new, now)

    monkeypatch.setattr(Documents, "add", in_the_way_at_first)

    async def scenario(world):
        batch = {"documents": [{"content": f"Number {number}."} for number in range(6)]}
        answer = await world.client.post("/v3/documents/batch", json=batch)
        assert answer.status_code == 202, answer.text
        assert len(keys) == 7
        assert keys == sorted(keys)
        for number, each in enumerate(answer.json()["documents"]):
            content = await world.client.get(f"/v3/documents/{each['id']}/content")
            assert content.json()["content"] == f"Number {number}."

    with_world(sqlite_url, tmp_path, scenario)


def test_while_the_intake_is_paused_no_document_is_taken_in(sqlite_url, tmp_path):
    async def scenario(world):
        await world.engine.intake.pause("the disk is replaced")
        answer = await world.client.post("/v3/documents", json={"content": "words"})
        assert error_of(answer) == (503, "INTAKE_PAUSED")
        assert answer.headers["retry-after"] == "30"
        batch = {"documents": [{"content": "words"}]}
        answer = await world.client.post("/v3/documents/batch", json=batch)
        assert error_of(answer) == (503, "INTAKE_PAUSED")
        assert (await world.client.get("/v3/documents")).json()["documents"] == []

    with_world(sqlite_url, tmp_path, scenario)


# -- limits of owners ------------------------------------------------------------------------------


def test_documents_beyond_the_limits_of_their_owner_are_refused_all_or_none(sqlite_url, tmp_path):
    async def scenario(world):
        first = await world.client.post("/v3/documents", json={"content": "four"})
        ((job,), owners) = (await world.engine.list()).jobs, world.engine.owners
        assert first.status_code == 202
        assert (await owners.use(job.owner)).stored == {"ingestion": 4}

        await owners.set_limits(job.owner, OwnerLimits(storage_bytes=9))
        batch = {"documents": [{"content": "three"}, {"content": "x"}]}
        answer = await world.client.post("/v3/documents/batch", json=batch)
        assert error_of(answer) == (507, "STORAGE_EXCEEDED")
        await owners.set_limits(job.owner, OwnerLimits(waiting=2))
        answer = await world.client.post("/v3/documents/batch", json=batch)
        assert error_of(answer) == (429, "TOO_MANY_JOBS")
        assert len((await world.engine.list()).jobs) == 1
        await owners.set_limits(job.owner, OwnerLimits(waiting=3, storage_bytes=10))
        assert (await world.client.post("/v3/documents/batch", json=batch)).is_success

    with_world(sqlite_url, tmp_path, scenario)


@pytest.mark.parametrize("limits", [OwnerLimits(waiting=3), OwnerLimits(storage_bytes=14)])
def test_documents_at_the_same_moment_do_not_exceed_the_limits_together(
    sqlite_url, tmp_path, limits
):
    async def scenario(world):
        await world.client.post("/v3/documents", json={"content": "four"})
        (job,) = (await world.engine.list()).jobs
        await world.engine.owners.set_limits(job.owner, limits)
        bodies = [{"content": f"five{n}"} for n in range(6)]
        every = [world.client.post("/v3/documents", json=body) for body in bodies]
        assert sum(answer.is_success for answer in await asyncio.gather(*every)) == 2

    with_world(sqlite_url, tmp_path, scenario)


@pytest.mark.parametrize("limits", [OwnerLimits(waiting=1), OwnerLimits(storage_bytes=4)])
def test_a_repeat_is_answered_with_its_document_also_at_a_limit(sqlite_url, tmp_path, limits):
    """Alone, and in a batch in which all are repeats; one that is new is refused with all."""

    async def scenario(world):
        known, new = {"content": "four"}, {"content": "new"}
        first = await world.client.post("/v3/documents", json=known)
        (job,) = (await world.engine.list()).jobs
        await world.engine.owners.set_limits(job.owner, limits)
        again = await world.client.post("/v3/documents", json=known)
        assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
        for documents, fits in (([known, known], True), ([known, new], False)):
            batch = {"documents": documents}
            answer = await world.client.post("/v3/documents/batch", json=batch)
            assert answer.is_success is fits
        assert len((await world.engine.list()).jobs) == 1

    with_world(sqlite_url, tmp_path, scenario)
