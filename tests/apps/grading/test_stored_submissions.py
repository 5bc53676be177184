"""Storage of submissions: what is counted, and what is refused beyond an owner's limit."""

import asyncio

from tests.apps.grading.samples import ESSAY
from tests.apps.grading.world import served_world

from holdfast import OwnerLimits

WRITING = {"skill": "writing", "text": ESSAY}
SPEAKING = {"stt_base_url": "http://127.0.0.1:9"}
RECORDING = {"file": ("a.wav", b"RIFF" * 10, "audio/wav")}


def test_texts_and_recordings_count_and_what_does_not_fit_is_refused(sqlite_url, tmp_path):
    async def main():
        async with served_world(sqlite_url, tmp_path, stt_base_url="http://127.0.0.1:9") as world:
            client, owners = world.client, world.engine.owners
            taken = (await client.post("/api/submissions", json=WRITING)).json()
            owner = (await world.submissions.find(taken["submissionId"])).owner
            recording = {"file": ("a.wav", b"RIFF" * 10, "audio/wav")}
            (await client.post("/api/recordings", files=recording)).raise_for_status()
            used = len(ESSAY.encode()) + 40
            assert (await owners.use(owner)).stored == {"grading": used}

            await owners.set_limits(owner, OwnerLimits(storage_bytes=used + 39, waiting=1))
            for answer in (
                await client.post("/api/recordings", files=recording),
                await client.post("/api/submissions", json=WRITING),
            ):
                assert answer.status_code == 507
                assert answer.json()["error"]["code"] == "STORAGE_EXCEEDED"
                assert "storage is full" in answer.json()["error"]["message"]
            assert len(list(world.app.files.list("audio"))) == 1
            short = {"skill": "writing", "text": "Short."}
            assert (await client.post("/api/submissions", json=short)).status_code == 202
            # Notices are jobs of the owner, and are never refused.
            await world.settle()
            listed = (await client.get("/api/submissions")).json()["submissions"]
            assert {each["status"] for each in listed if each["skill"] == "writing"} == {
                "COMPLETED"
            }

    asyncio.run(main())


def test_a_repeat_at_a_limit_is_answered_with_the_submission_that_is_there(sqlite_url, tmp_path):
    async def main():
        async with served_world(sqlite_url, tmp_path) as world:
            client, named = world.client, {**WRITING, "requestId": "r1"}
            first = (await client.post("/api/submissions", json=named)).json()
            owner = (await world.submissions.find(first["submissionId"])).owner
            await world.engine.owners.set_limits(owner, OwnerLimits(storage_bytes=1))
            again = await client.post("/api/submissions", json=named)
            assert again.json()["submissionId"] == first["submissionId"]
            other = await client.post("/api/submissions", json={**WRITING, "requestId": "r2"})
            assert other.status_code == 507

    asyncio.run(main())


def test_submissions_at_the_same_moment_do_not_exceed_the_storage_together(sqlite_url, tmp_path):
    async def main():
        async with served_world(sqlite_url, tmp_path) as world:
            taken = (await world.client.post("/api/submissions", json=WRITING)).json()
            owner = (await world.submissions.find(taken["submissionId"])).owner
            limits = OwnerLimits(storage_bytes=3 * len(ESSAY.encode()))
            await world.engine.owners.set_limits(owner, limits)
            every = [world.client.post("/api/submissions", json=WRITING) for _ in range(6)]
            answers = await asyncio.gather(*every)
            assert sorted(answer.status_code for answer in answers) == [202] * 2 + [507] * 4

    asyncio.run(main())


def test_recordings_at_the_same_moment_do_not_exceed_the_storage_together(database_url, tmp_path):
    async def main():
        async with served_world(database_url, tmp_path, **SPEAKING) as world:
            taken = (await world.client.post("/api/submissions", json=WRITING)).json()
            owner = (await world.submissions.find(taken["submissionId"])).owner
            limits = OwnerLimits(storage_bytes=len(ESSAY.encode()) + 2 * 40 + 39)
            await world.engine.owners.set_limits(owner, limits)
            every = [world.client.post("/api/recordings", files=RECORDING) for _ in range(6)]
            answers = await asyncio.gather(*every)
            assert sorted(answer.status_code for answer in answers) == [202] * 2 + [507] * 4
            assert len(list(world.app.files.list("audio"))) == 2

    asyncio.run(main())


def test_a_repeated_recording_at_a_limit_is_answered_with_the_submission_that_is_there(
    database_url, tmp_path
):
    async def main():
        async with served_world(database_url, tmp_path, **SPEAKING) as world:
            client = world.client

            async def post(name):
                return await client.post("/api/recordings", files=RECORDING, data=name)

            first = (await post({"requestId": "r1"})).json()
            owner = (await world.submissions.find(first["submissionId"])).owner
            await world.engine.owners.set_limits(owner, OwnerLimits(storage_bytes=40))
            again = await post({"requestId": "r1"})
            assert (again.status_code, again.json()["deduplicated"]) == (200, True)
            assert again.json()["submissionId"] == first["submissionId"]
            assert (await post({"requestId": "r2"})).status_code == 507
            assert (await post({})).status_code == 507

    asyncio.run(main())


def test_storage_is_counted_once_per_recording(sqlite_url, tmp_path, monkeypatch):
    counts = []

    async def counted(*args):
        counts.append(args)
        yield 0

    async def main():
        async with served_world(sqlite_url, tmp_path, stt_base_url="http://127.0.0.1:9") as world:
            client, owners = world.client, world.engine.owners
            taken = (await client.post("/api/submissions", json=WRITING)).json()
            owner = (await world.submissions.find(taken["submissionId"])).owner
            await owners.set_limits(owner, OwnerLimits(storage_bytes=10**6))
            monkeypatch.setattr("holdfast_grading.app.stored_bytes", counted)
            recording = {"file": ("a.wav", b"RIFF" * 10, "audio/wav")}
            (await client.post("/api/recordings", files=recording)).raise_for_status()

    asyncio.run(main())
    assert len(counts) == 1
