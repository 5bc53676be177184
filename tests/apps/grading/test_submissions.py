"""Submissions in the database: taken in once, published, listed and counted."""

import asyncio
import json

import pytest
from tests.apps.grading.samples import ESSAY, grading_engine, new_submission, publish

from holdfast_grading.messages import GradingRequest, Skill, SubmissionPayload, request_id_of
from holdfast_grading.submissions import Submissions
from holdfast_grading.tables import Status


def run(url, scenario):
    async def main():
        async with grading_engine(url) as engine:
            await scenario(engine, Submissions(engine))

    asyncio.run(main())


def test_a_submission_is_stored_with_its_message_and_processing_once_that_is_published(
    database_url,
):
    async def scenario(engine, submissions):
        stored, is_new = await submissions.add(new_submission(request_id="essay-1"), now=1000.0)
        assert is_new
        assert (stored.status, stored.deadline_at) == (Status.PENDING, 2200.0)
        assert (stored.request_id, stored.payload.text) == ("essay-1", ESSAY)
        (message,) = await publish(engine)
        request = GradingRequest.from_json(message.payload)
        assert (message.message_type, message.aggregate_id) == ("grading.request", stored.id)
        assert (request.submission_id, request.attempt) == (stored.id, 1)
        assert request.deadline_at.timestamp() == stored.deadline_at
        assert request.request_id == request_id_of(stored.id, "essay-1")
        assert (await submissions.get("ann", stored.id)).status is Status.PROCESSING
        assert [each.id for each in await submissions.page("ann", status=Status.PROCESSING)] == [
            stored.id
        ]
        assert await submissions.page("ann", status=Status.PENDING) == []

    run(database_url, scenario)


def test_a_hundred_of_one_request_id_at_once_are_one_submission(database_url):
    async def scenario(engine, submissions):
        new = new_submission(request_id="essay-1")
        taken = await asyncio.gather(*(submissions.add(new) for _ in range(100)))
        assert len({stored.id for stored, _ in taken}) == 1
        assert sum(is_new for _, is_new in taken) == 1
        assert len(await publish(engine)) == 1

    run(database_url, scenario)


def test_owners_may_name_their_requests_alike(database_url):
    async def scenario(engine, submissions):
        ids = [
            (await submissions.add(new_submission(owner, request_id="1")))[0].id
            for owner in ("ann", "bob")
        ]
        requests = [json.loads(each.payload)["requestId"] for each in await publish(engine)]
        assert len(set(requests)) == 2
        assert await submissions.get("bob", ids[0]) is None
        assert (await submissions.find(ids[0])).owner == "ann"

    run(database_url, scenario)


def test_a_submission_that_is_rolled_back_is_never_published(database_url, monkeypatch):
    async def scenario(engine, submissions):
        add = engine.outbox.add

        async def add_and_fail(*args, **options):
            await add(*args, **options)
            raise RuntimeError("power cut")

        monkeypatch.setattr(engine.outbox, "add", add_and_fail)
        with pytest.raises(RuntimeError):
            await submissions.add(new_submission())
        assert await publish(engine) == []
        assert await submissions.page("ann") == []

    run(database_url, scenario)


def test_a_list_is_newest_first_and_goes_on_from_a_cursor(database_url):
    async def scenario(engine, submissions):
        spoken = {"skill": Skill.SPEAKING, "payload": SubmissionPayload(audio_url="https://a.b/c")}
        ids = []
        for number in range(4):
            new = new_submission(**(spoken if number % 2 else {}))
            ids.append((await submissions.add(new, now=1000.0 + number))[0].id)
        first = await submissions.page("ann", limit=3)
        assert [each.id for each in first] == ids[:0:-1]
        rest = await submissions.page("ann", before=first[-1].id, limit=3)
        assert [each.id for each in rest] == ids[:1]
        spoken_ids = [each.id for each in await submissions.page("ann", skill=Skill.SPEAKING)]
        assert spoken_ids == [ids[3], ids[1]]
        assert await submissions.page("bob") == []

    run(database_url, scenario)


def test_an_attempt_is_counted_once(database_url):
    async def scenario(engine, submissions):
        stored, _ = await submissions.add(new_submission())
        assert await submissions.count_attempt(stored.id, 1)
        assert not await submissions.count_attempt(stored.id, 1)
        assert await submissions.count_attempt(stored.id, 2)
        found = await submissions.find(stored.id)
        assert (found.attempts, found.status) == (2, Status.PROCESSING)
        assert not await submissions.count_attempt("nothing", 1)

    run(database_url, scenario)
