"""The submissions of an owner are deleted with their results, recordings and jobs."""

import asyncio

from tests.apps.grading.samples import ESSAY
from tests.apps.grading.world import served_world


def test_submissions_recordings_and_jobs_of_an_owner_are_deleted_and_no_others(
    database_url, tmp_path
):
    async def main():
        async with served_world(database_url, tmp_path, stt_base_url="http://127.0.0.1:9") as world:
            client, stranger = world.client, await world.browser()
            writing = {"skill": "writing", "text": ESSAY}
            taken = (await client.post("/api/submissions", json=writing)).json()
            owner = (await world.submissions.find(taken["submissionId"])).owner
            (await stranger.post("/api/submissions", json=writing)).raise_for_status()
            await world.settle()
            recording = {"file": ("a.wav", b"RIFF", "audio/wav")}
            (await client.post("/api/recordings", files=recording)).raise_for_status()
            assert len(list(world.app.files.list("audio"))) == 1

            erased = await world.engine.erase(owner)

            assert erased.data == {"grading.submissions": 2}
            assert list(world.app.files.list("audio")) == []
            assert (await client.get("/api/submissions")).json()["submissions"] == []
            kept = (await stranger.get("/api/submissions")).json()["submissions"]
            assert [each["status"] for each in kept] == ["COMPLETED"]
            graded = [
                job for job in (await world.engine.list()).jobs if job.kind == "grading.grade"
            ]
            assert len(graded) == 1
            await world.settle()  # what was erased before it was published finds nothing to do
            again = await world.engine.erase(owner)
            assert again.data == {"grading.submissions": 0}

    asyncio.run(main())


def test_messages_of_an_owner_that_wait_in_the_outbox_are_deleted_and_no_others(
    database_url, tmp_path
):
    async def main():
        async with served_world(database_url, tmp_path) as world:
            outbox, stranger = world.engine.outbox, await world.browser()
            writing = {"skill": "writing", "text": ESSAY}
            mine = (await world.client.post("/api/submissions", json=writing)).json()
            other = (await stranger.post("/api/submissions", json=writing)).json()
            owner = (await world.submissions.find(mine["submissionId"])).owner
            assert len((await outbox.list()).messages) == 2

            await world.engine.erase(owner)

            (left,) = (await outbox.list()).messages
            assert left.aggregate_id == other["submissionId"]

    asyncio.run(main())
