"""Every scenario and edge case of the seed, with real sockets, on both stores."""

import asyncio
import contextlib
import logging
import time

import pytest
from tests.apps.ingestion.sites import site, swallowing_port
from tests.apps.ingestion.world import World
from tests.support.waiting import until

from holdfast import JobFilter
from holdfast.fetch import FetchLimits
from holdfast.jobs.store_port import ClaimRequest
from holdfast_ingestion.job_values import DocumentArgs
from holdfast_ingestion.settling import retry_lost

SENTENCE = "A sentence about otters that swim in cold rivers."


def tried(document):
    return document["status"], document["state"], document["attemptsMade"]


# -- what works --------------------------------------------------------------------------------


def test_a_page_is_fetched_extracted_indexed_and_found(database_url, tmp_path):
    async def scenario():
        async with World(database_url, tmp_path) as world, site() as web, world.working():
            document = await world.finished(
                await world.add(url=web.html("/otters", "Otters", SENTENCE), type="url")
            )

            assert tried(document) == ("done", "completed", 1)
            assert (document["title"], document["contentType"]) == ("Otters", "text/html")
            assert document["failedReason"] is None
            assert document["processingMetadata"] == {"chunks": 1}
            (hit,) = await world.search("cold rivers")
            assert hit["documentId"] == document["id"]
            assert SENTENCE in hit["passage"]
            assert "Imprint" not in hit["passage"]

    asyncio.run(scenario())


def test_a_page_without_a_title_is_found_by_the_end_of_its_address(database_url, tmp_path):
    async def scenario():
        async with World(database_url, tmp_path) as world, site() as web, world.working():
            document = await world.finished(
                await world.add(url=web.text("/a/Re%CC%81sume%CC%81%00.txt", SENTENCE))
            )
            assert (document["status"], document["title"]) == ("done", "R\u00e9sum\u00e9 .txt")
            assert len(await world.search("r\u00e9sum\u00e9")) == 1

    asyncio.run(scenario())


def test_text_markdown_and_uploads_are_indexed_too(sqlite_url, tmp_path):
    async def scenario():
        async with World(sqlite_url, tmp_path) as world, world.working():
            text = await world.add(content="Plain words about herons.")
            markdown = await world.add(content="# Storks\n\nThey nest high.", type="markdown")
            html = await world.add(content="<p>Cranes dance in spring.</p>", type="html")
            file = {"file": ("notes.txt", b"Egrets are white.", "text/plain")}
            upload = await world.client.post("/v3/documents", files=file)

            for document_id in (text, markdown, html, upload.json()["id"]):
                assert (await world.finished(document_id))["status"] == "done"
            assert (await world.show(markdown))["title"] == "Storks"
            for word in ("herons", "nest", "cranes", "egrets"):
                assert len(await world.search(word)) == 1

    asyncio.run(scenario())


# -- failures that are tried again ---------------------------------------------------------------


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_server_error_is_tried_three_times(database_url, tmp_path, status):
    async def scenario():
        async with World(database_url, tmp_path) as world, site() as web, world.working():
            document = await world.finished(await world.add(url=web.status("/", status)))

            assert tried(document) == ("failed", "failed", 3)
            assert f"HTTP {status}" in document["failedReason"]
            assert document["failedCode"] == "FETCH_5XX"
            assert document["processingMetadata"]["error"] == document["failedReason"]
            assert len(web.asked) == 3

    asyncio.run(scenario())


def test_a_name_that_does_not_resolve_is_tried_three_times(sqlite_url, tmp_path):
    async def scenario():
        async with World(sqlite_url, tmp_path) as world, world.working():
            url = "https://this-domain-does-not-exist-12345.invalid"
            document = await world.finished(await world.add(url=url))

            assert tried(document) == ("failed", "failed", 3)
            assert document["failedCode"] == "HOST_NOT_FOUND"

    asyncio.run(scenario())


def test_an_address_that_swallows_packets_is_tried_three_times(sqlite_url, tmp_path):
    limits = FetchLimits(max_seconds=20.0, connect_seconds=0.3)

    async def scenario():
        async with World(sqlite_url, tmp_path, limits) as world, world.working():
            with swallowing_port() as port:
                document = await world.finished(await world.add(url=f"http://127.0.0.1:{port}/"))

            assert tried(document) == ("failed", "failed", 3)
            assert document["failedCode"] == "FETCH_TIMEOUT"

    asyncio.run(scenario())


def test_a_page_that_comes_at_the_third_attempt_is_done(sqlite_url, tmp_path):
    async def scenario():
        async with World(sqlite_url, tmp_path) as world, site() as web, world.working():
            document_id = await world.add(url=web.status("/", 503))
            await until(lambda: len(web.asked) == 1)
            await until(lambda: expedited(world, document_id))
            await until(lambda: len(web.asked) == 2)
            web.text("/", SENTENCE)

            assert tried(await world.finished(document_id)) == ("done", "completed", 3)

    asyncio.run(scenario())


async def expedited(world, document_id):
    """Begin the next attempt of a document that waits for it."""
    waits = (await world.show(document_id))["state"] == "delayed"
    if waits:
        await world.expedite(f"doc-{document_id}")
    return waits


# -- failures that are not -----------------------------------------------------------------------


UNREADABLE = {
    "/png": ("UNSUPPORTED_TYPE", (200, {"content-type": "image/png"}, b"\x89PNG\r\n\x1a\n\0")),
    "/mp4": ("UNSUPPORTED_TYPE", (200, {"content-type": "video/mp4"}, b"\0\0\0\x18ftypmp42")),
    "/empty": ("NOTHING_TO_READ", (200, {"content-type": "text/html"}, b"<html></html>")),
    "/pdf": ("PARSE_ERROR", (200, {"content-type": "application/pdf"}, b"%PDF-1.4 damaged")),
    "/404": ("FETCH_4XX", (404, {}, b"")),
    "/large": ("FETCH_TOO_LARGE", (200, {"content-type": "text/plain"}, b"x" * (2**20 + 1))),
}


def test_what_can_never_be_read_gets_one_attempt(sqlite_url, tmp_path):
    async def scenario():
        async with World(sqlite_url, tmp_path) as world, site() as web, world.working():
            web.answers = {path: answer for path, (_, answer) in UNREADABLE.items()}
            found = {}
            for path in UNREADABLE:
                document = await world.finished(await world.add(url=web.url(path)))
                assert tried(document) == ("failed", "failed", 1)
                found[path] = document["failedCode"]

            assert found == {path: code for path, (code, _) in UNREADABLE.items()}
            assert sorted(web.asked) == sorted(UNREADABLE)

    asyncio.run(scenario())


def test_malformed_html_is_read_as_far_as_it_goes(sqlite_url, tmp_path):
    broken = b"<html><p>Badgers dig <b>deep <i>setts</b> & sleep<table><td>all day <p></html"

    async def scenario():
        async with World(sqlite_url, tmp_path) as world, site() as web, world.working():
            web.answers["/"] = (200, {"content-type": "text/html"}, broken)
            document = await world.finished(await world.add(url=web.url("/")))

            assert tried(document) == ("done", "completed", 1)
            assert len(await world.search("badgers setts")) == 1

    asyncio.run(scenario())


def test_a_name_of_a_private_address_is_refused_at_the_first_attempt(sqlite_url, tmp_path):
    async def private(host, port):
        return ["10.255.255.1"]

    async def scenario():
        async with World(sqlite_url, tmp_path) as world:
            fetcher = world.app._new_fetcher()
            fetcher._resolver = private
            world.app._new_fetcher = lambda: fetcher
            async with world.working():
                document = await world.finished(await world.add(url="http://inside.example/"))

            assert tried(document) == ("failed", "failed", 1)
            assert document["failedCode"] == "URL_REFUSED"
            assert "10.255" not in document["failedReason"]

    asyncio.run(scenario())


# -- indexing ------------------------------------------------------------------------------------


FULL_DISK = """
    CREATE FUNCTION ingestion.full_disk() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN RAISE EXCEPTION USING ERRCODE = ''53100'', MESSAGE = ''no space left''; END'
"""


@contextlib.asynccontextmanager
async def no_chunks_stored(world):
    """Let every insert of a chunk fail in the database, as a full disk would."""
    if world.engine.database.dialect == "sqlite":
        begin = [
            "CREATE TRIGGER full_disk BEFORE INSERT ON ingestion_chunks "
            "BEGIN SELECT 1 FROM ingestion_words WHERE rowid = json('no space left'); END"
        ]
        end = "DROP TRIGGER full_disk"
    else:
        begin = [
            FULL_DISK,
            "CREATE TRIGGER full_disk BEFORE INSERT ON ingestion.chunks "
            "FOR EACH ROW EXECUTE FUNCTION ingestion.full_disk()",
        ]
        end = "DROP TRIGGER full_disk ON ingestion.chunks"
    await execute(world, *begin)
    try:
        yield
    finally:
        await execute(world, end)


async def execute(world, *statements):
    async with world.engine.database.transaction() as tx:
        for statement in statements:
            await tx.fetch(statement)


def test_content_is_kept_where_indexing_fails_and_a_retry_goes_on_from_there(
    database_url, tmp_path
):
    async def scenario():
        async with World(database_url, tmp_path) as world, site() as web, world.working():
            async with no_chunks_stored(world):
                document_id = await world.add(url=web.text("/", SENTENCE))
                document = await world.finished(document_id)

            assert tried(document) == ("failed", "failed", 3)
            assert web.asked == ["/"]
            assert await world.chunks(document_id) == []
            content = await world.client.get(f"/v3/documents/{document_id}/content")
            assert content.json()["content"] == SENTENCE

            answer = await world.client.post(f"/v3/documents/{document_id}/retry")
            assert (answer.status_code, answer.json()["status"]) == (202, "queued")
            assert tried(await world.finished(document_id)) == ("done", "completed", 1)
            assert web.asked == ["/"]
            assert await world.chunks(document_id) == [(0, SENTENCE)]

    asyncio.run(scenario())


def test_a_failed_indexing_does_not_count_against_the_site(sqlite_url, tmp_path):
    async def scenario():
        async with World(sqlite_url, tmp_path) as world, site() as web, world.working():
            async with no_chunks_stored(world):
                for number in range(2):
                    await world.finished(await world.add(url=web.text(f"/{number}", SENTENCE)))

            states = await world.engine.downstreams.states()
            assert states[f"host:127.0.0.1:{web.port}"] == "CLOSED"

    asyncio.run(scenario())


# -- retries and duplicates ----------------------------------------------------------------------


def test_a_manual_retry_has_a_fresh_budget(database_url, tmp_path):
    async def scenario():
        async with World(database_url, tmp_path) as world, site() as web, world.working():
            document_id = await world.add(url=web.status("/", 500))
            await world.finished(document_id)
            job = f"doc-{document_id}"
            await world.engine.downstreams.reset(f"host:127.0.0.1:{web.port}")
            await world.client.post(f"/v3/documents/{document_id}/retry")
            assert tried(await world.finished(document_id)) == ("failed", "failed", 3)

            web.text("/", SENTENCE)
            await world.engine.downstreams.reset(f"host:127.0.0.1:{web.port}")
            await world.engine.retry(job)  # as the page of dead letters does
            assert tried(await world.finished(document_id)) == ("done", "completed", 1)
            assert (await world.engine.get(job)).manual_retry_count == 2

    asyncio.run(scenario())


@pytest.mark.parametrize("outcome", ["done", "failed"])
def test_a_new_job_of_a_finished_document_is_skipped(database_url, tmp_path, caplog, outcome):
    async def scenario():
        async with World(database_url, tmp_path) as world, site() as web, world.working():
            url = web.text("/", SENTENCE) if outcome == "done" else web.status("/", 500)
            document_id = await world.add(url=url)
            await world.finished(document_id)
            await until(lambda: settled(world, document_id))
            asked = len(web.asked)

            job = await world.engine.enqueue(
                world.app.process, DocumentArgs(document_id, "local"), id="another-job"
            )
            assert (await world.engine.result(job, timeout=60)).outcome == "skipped"
            assert (await world.show(document_id))["status"] == outcome
            assert len(web.asked) == asked

    with caplog.at_level(logging.INFO, "holdfast.ingestion"):
        asyncio.run(scenario())
    assert "Document already processed, skipping" in caplog.text


async def settled(world, document_id):
    item = await world.documents.work_item(document_id)
    return item is not None and item.status != "queued"


def test_a_document_is_retried_after_its_jobs_record_is_gone(database_url, tmp_path):
    async def scenario():
        async with World(database_url, tmp_path) as world, site() as web:
            async with world.working():
                document_id = await world.add(url=web.status("/", 500))
                before = await world.finished(document_id)
                await until(lambda: settled(world, document_id))
            await forget_job(world, f"doc-{document_id}")

            after = await world.show(document_id)
            assert {**after, "finishedAt": None} == {**before, "finishedAt": None}
            web.text("/", SENTENCE)
            await world.client.post(f"/v3/documents/{document_id}/retry")
            async with world.working():
                assert tried(await world.finished(document_id)) == ("done", "completed", 1)

    asyncio.run(scenario())


async def forget_job(world, job):
    """Delete a job's record, as retention does after a day."""
    from holdfast.jobs.model import JobStatus
    from holdfast.jobs.store_values import RetentionRule

    rule = RetentionRule("ingestion.process", JobStatus.FAILED, max_age=None, max_count=0)
    await until(lambda: deleted(world, rule, job))


async def deleted(world, rule, job):
    await world.engine.store.delete_finished(rule)
    return await world.engine.get(job) is None


def test_a_document_whose_workers_are_killed_is_retried_until_nine_attempts(database_url, tmp_path):
    async def lose(world):
        """Claim the only job as a worker that dies, until its attempts are used up."""
        store, kinds = world.engine.store, {"ingestion.process": 3}

        async def rescued():
            return (await store.rescue(limit=9)).jobs

        for _ in range(3):
            request = ClaimRequest(1, ("default",), kinds, lease_seconds=0.001)
            assert (await store.tick("doomed", (), request)).claims
            await until(rescued)

    async def scenario():
        async with World(database_url, tmp_path) as world, site() as web:
            document_id = await world.add(url=web.text("/", SENTENCE))
            for _ in range(2):
                await lose(world)
                assert (await world.engine.get(f"doc-{document_id}")).status == "failed"
                assert tried(await world.show(document_id)) == ("queued", "waiting", 3)
                assert await world.documents.settle() == []
                await retry_lost(world.engine.database, world.engine.retry)
                assert tried(await world.show(document_id)) == ("queued", "waiting", 0)
            await lose(world)
            await retry_lost(world.engine.database, world.engine.retry)
            assert tried(await world.show(document_id)) == ("failed", "failed", 3)
            assert await world.documents.settle() == [document_id]

    asyncio.run(scenario())


def test_a_job_that_is_cancelled_fails_its_document(sqlite_url, tmp_path):
    """No handler runs at the end of such a job, so nothing but its record can say so."""

    async def scenario():
        async with World(sqlite_url, tmp_path) as world, site() as web:
            document_id = await world.add(url=web.text("/", SENTENCE))
            await world.engine.cancel(f"doc-{document_id}")

            document = await world.show(document_id)
            assert (document["status"], document["failedCode"]) == ("failed", "CANCELLED")
            assert (await world.documents.work_item(document_id)).status == "queued"
            assert await world.documents.settle() == [document_id]
            assert (await world.show(document_id))["failedReason"] == document["failedReason"]

    asyncio.run(scenario())


def test_a_document_that_is_deleted_while_it_is_fetched_leaves_nothing(database_url, tmp_path):
    async def scenario():
        async with World(database_url, tmp_path) as world, site() as web, world.working():
            web.delay = 0.3
            document_id = await world.add(url=web.text("/", SENTENCE))
            await until(lambda: bool(web.asked))
            assert (await world.client.delete(f"/v3/documents/{document_id}")).status_code == 204

            job = await world.engine.wait(f"doc-{document_id}", timeout=60)
            assert job.status in {"complete", "cancelled"}
            assert await world.chunks(document_id) == []
            assert not await world.documents.exists(document_id)

    asyncio.run(scenario())


# -- refreshing ----------------------------------------------------------------------------------


async def refreshed(world, document_id):
    answer = await world.client.post(f"/v3/documents/{document_id}/refresh")
    assert answer.status_code == 202, answer.text
    return await world.engine.result(answer.json()["jobId"], timeout=60)


def test_a_failed_refresh_is_shown_until_a_good_one(database_url, tmp_path):
    async def failed(world, document_id):
        return (await world.show(document_id))["refreshError"]

    async def scenario():
        async with World(database_url, tmp_path) as world, site() as web, world.working():
            document_id = await world.add(url=web.text("/", SENTENCE))
            await world.finished(document_id)
            assert await failed(world, document_id) is None
            web.status("/", 404)
            await world.client.post(f"/v3/documents/{document_id}/refresh")

            error = await until(lambda: failed(world, document_id))
            assert (error["code"], "HTTP 404" in error["message"]) == ("FETCH_4XX", True)
            assert error["failedAt"] > (await world.show(document_id))["checkedAt"]
            page = await world.client.get(f"/documents/{document_id}")
            assert "The last refresh failed: " in page.text
            assert len(await world.search("otters")) == 1

            for text in (SENTENCE, "New words."):  # one finds nothing new, the other does
                web.text("/", text)
                await refreshed(world, document_id)
                assert await failed(world, document_id) is None
                web.status("/", 404)
                await world.client.post(f"/v3/documents/{document_id}/refresh")
                await until(lambda: failed(world, document_id))

    asyncio.run(scenario())


def test_a_refresh_whose_server_was_killed_right_after_adding_its_job_is_shown_too(
    database_url, tmp_path
):
    async def failed(world, document_id):
        return (await world.show(document_id))["refreshError"]

    async def scenario():
        async with World(database_url, tmp_path) as world, site() as web, world.working():
            document_id = await world.add(url=web.text("/", SENTENCE))
            await world.finished(document_id)
            web.status("/", 404)
            args = DocumentArgs(document_id, "local", f"127.0.0.1:{web.port}")
            await world.engine.enqueue(world.app.refresh, args)

            error = await until(lambda: failed(world, document_id))
            assert error["code"] == "FETCH_4XX"

    asyncio.run(scenario())


def test_a_refresh_names_its_job_only_to_who_may_read_it(sqlite_url, tmp_path):
    async def scenario():
        async with World(sqlite_url, tmp_path) as world, site() as web:
            async with world.working():
                document_id = await world.add(url=web.text("/", SENTENCE))
                await world.finished(document_id)
            path = f"/v3/documents/{document_id}/refresh"
            stranger = await world.browser()
            answer = await stranger.post(path)
            assert (answer.status_code, "jobId" in answer.json()) == (202, False)
            # It is the same job as long as it is unfinished.
            assert "jobId" not in (await world.client.post(path)).json()
            await world.engine.cancel(await unfinished_refresh(world))
            job = (await world.client.post(path)).json()["jobId"]
            assert (await world.client.get(f"/api/jobs/{job}")).status_code == 200
            assert (await world.client.post(path)).json()["jobId"] == job

    asyncio.run(scenario())


async def unfinished_refresh(world):
    found = await world.engine.list(JobFilter(kinds=("ingestion.refresh",)))
    return found.jobs[0].id


def test_a_refresh_asks_for_what_has_changed_only(database_url, tmp_path):
    async def scenario():
        async with World(database_url, tmp_path) as world, site() as web, world.working():
            document_id = await world.add(url=web.text("/", SENTENCE, etag='"1"'))
            await world.finished(document_id)

            assert (await refreshed(world, document_id)).outcome == "unchanged"
            assert 'If-None-Match: "1"' in web.requests[-1]
            web.text("/", "Beavers build dams.", etag='"2"')
            assert (await refreshed(world, document_id)).outcome == "indexed"
            assert await world.chunks(document_id) == [(0, "Beavers build dams.")]
            assert await world.search("otters") == []
            assert len(await world.search("beavers")) == 1

            web.text("/", "Beavers build dams.", etag='"3"')
            assert (await refreshed(world, document_id)).outcome == "unchanged"
            assert (await refreshed(world, document_id)).outcome == "unchanged"
            assert 'If-None-Match: "3"' in web.requests[-1]

            web.status("/", 404)
            with pytest.raises(Exception, match="404"):
                await refreshed(world, document_id)
            assert (await world.show(document_id))["status"] == "done"

    asyncio.run(scenario())


def test_the_title_that_a_caller_gives_is_kept(database_url, tmp_path):
    async def scenario():
        async with World(database_url, tmp_path) as world, site() as web, world.working():
            named = await world.add(url=web.html("/a", "Its own", SENTENCE), title="Mine")
            unnamed = await world.add(url=web.html("/b", "Its own", SENTENCE))
            for document_id, title in ((named, "Mine"), (unnamed, "Its own")):
                assert (await world.finished(document_id))["title"] == title
            web.html("/a", "Another", "New words."), web.html("/b", "Another", "New words.")
            for document_id, title in ((named, "Mine"), (unnamed, "Another")):
                assert (await refreshed(world, document_id)).outcome == "indexed"
                assert (await world.show(document_id))["title"] == title

    asyncio.run(scenario())


# -- one site fails, the others do not notice ----------------------------------------------------


def test_documents_of_other_sites_finish_as_if_the_failing_one_were_not_there(sqlite_url, tmp_path):
    async def seconds(world, web, paths, broken=None):
        loop = asyncio.get_running_loop()
        begin = loop.time()
        if broken is not None:
            for number in range(12):
                await world.add(url=broken.url(f"/{paths}{number}"))
        added = [
            await world.add(url=web.text(f"/{paths}{number}", f"{SENTENCE} {paths}{number}"))
            for number in range(12)
        ]
        for document_id in added:
            await world.finished(document_id)
        return loop.time() - begin

    async def scenario():
        async with (
            World(sqlite_url, tmp_path) as world,
            site() as web,
            site() as broken,
            world.working(),
        ):
            web.delay = broken.delay = 0.05
            broken.default = (503, {}, b"")
            alone = await seconds(world, web, "a")
            beside = await seconds(world, web, "b", broken)

            assert beside < 2 * alone + 2.0
            states = await world.engine.downstreams.states()
            assert states[f"host:127.0.0.1:{broken.port}"] == "OPEN"
            assert states[f"host:127.0.0.1:{web.port}"] == "CLOSED"
            waiting = await world.client.get("/v3/documents?status=queued&limit=200")
            assert len(waiting.json()["documents"]) >= 6  # held, not failed

    asyncio.run(scenario())


def test_a_site_that_never_answers_leaves_the_other_places_to_other_sites(database_url, tmp_path):
    async def scenario():
        async with (
            World(database_url, tmp_path) as world,
            site() as web,
            site() as silent,
            world.working(),
        ):
            silent.delay = 3600.0
            for number in range(6):
                await world.add(url=silent.url(f"/{number}"))
            await until(lambda: silent.asked)
            added = [
                await world.add(url=web.text(f"/{number}", f"{SENTENCE} {number}"))
                for number in range(6)
            ]
            assert [(await world.finished(each))["status"] for each in added] == ["done"] * 6
            assert len(silent.asked) == 1  # it has one place, and its attempt has not ended

    asyncio.run(scenario())


def test_a_site_that_has_answered_has_all_places_until_it_fails(database_url, tmp_path):
    async def scenario():
        async with World(database_url, tmp_path) as world, site() as web, world.working():
            await world.finished(await world.add(url=web.text("/", SENTENCE)))
            web.delay = 3600.0
            for number in range(6):
                await world.add(url=web.url(f"/{number}"))
            await until(lambda: len(web.asked) == 4)

    asyncio.run(scenario())


def test_a_dead_site_behind_redirects_opens_its_own_breaker_only(database_url, tmp_path):
    async def scenario():
        async with (
            World(database_url, tmp_path) as world,
            site() as front,
            site() as dead,
            world.working(),
        ):
            dead.default = (503, {}, b"")
            front.answers = {
                f"/{number}": (302, {"location": dead.url(f"/{number}")}, b"")
                for number in range(3)
            }
            for number in range(3):
                document = await world.finished(await world.add(url=front.url(f"/{number}")))
                assert tried(document) == ("failed", "failed", 3)
            states = await world.engine.downstreams.states()
            assert states[f"host:127.0.0.1:{dead.port}"] == "OPEN"
            assert states[f"host:127.0.0.1:{front.port}"] == "CLOSED"
            own = await world.add(url=front.text("/own", SENTENCE))
            assert (await world.finished(own))["status"] == "done"

    asyncio.run(scenario())


def test_an_answer_behind_a_redirect_ends_the_failures_in_a_row_of_its_site(sqlite_url, tmp_path):
    async def scenario():
        async with (
            World(sqlite_url, tmp_path) as world,
            site() as front,
            site() as target,
            world.working(),
        ):
            front.answers["/bad"] = (302, {"location": target.status("/bad", 503)}, b"")
            front.answers["/good"] = (302, {"location": target.text("/good", SENTENCE)}, b"")
            await world.finished(await world.add(url=front.url("/bad")))
            name = f"host:127.0.0.1:{target.port}"
            assert (await world.engine.downstreams.get(name)).circuit.streak == 3

            await world.finished(await world.add(url=front.url("/good")))
            assert (await world.engine.downstreams.get(name)).circuit.streak == 0

    asyncio.run(scenario())


def test_a_site_that_asks_for_a_year_is_asked_again_after_an_hour(sqlite_url, tmp_path):
    async def scenario():
        async with World(sqlite_url, tmp_path) as world, site() as web, world.working():
            web.answers["/"] = (503, {"retry-after": "31536000"}, b"")
            job_id = f"doc-{await world.add(url=web.url('/'))}"

            async def waits():
                job = await world.engine.get(job_id)
                return job.retry_after is not None and job

            job = await until(waits)
            assert job.retry_after - time.time() <= 3600.0

    asyncio.run(scenario())
