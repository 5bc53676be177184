"""Uploaded recordings: taken in over HTTP with limits, and deleted when no submission has them."""

import asyncio
import os

import pytest
from tests.apps.grading.sounds import tone
from tests.apps.grading.world import served_world

from holdfast import OwnerLimits
from holdfast.files import ArtifactStore
from holdfast_grading.recordings import FOLDER, delete_old, keep, recording_name
from holdfast_grading.submissions import Submissions

SPEAKING = {"stt_base_url": "http://127.0.0.1:1/v1", "max_audio_bytes": 400_000}


def run(url, folder, scenario):
    async def main():
        async with served_world(url, folder, **SPEAKING) as world:
            await scenario(world)

    asyncio.run(main())


async def post(world, data, **fields):
    files = {"file": ("talk.wav", data, "audio/wav")} if data is not None else {}
    parts = {name: (None, value) for name, value in fields.items()}
    return await world.client.post("/api/recordings", files={**files, **parts})


def stored(world):
    return [each.name for each in world.app.files.list(FOLDER)]


def store(files, name, data=b"data"):
    with files.draft() as draft:
        keep(draft, name, data)


def test_a_recording_is_uploaded_once_for_one_request_id(sqlite_url, tmp_path):
    async def scenario(world):
        first = await post(world, tone(), requestId="talk-1")
        again = await post(world, tone(), requestId="talk-1")
        assert (first.status_code, again.status_code) == (202, 200)
        assert first.json()["submissionId"] == again.json()["submissionId"]
        found = await world.submissions.find(first.json()["submissionId"])
        assert world.app.files.path(found.payload.audio_file).read_bytes() == tone()

    run(sqlite_url, tmp_path, scenario)


def test_refused_recordings_leave_no_file(sqlite_url, tmp_path):
    async def scenario(world):
        assert (await post(world, b"x" * 400_001)).status_code == 413
        assert (await post(world, b"x" * 700_001)).status_code == 413
        assert (await post(world, None, requestId="talk-2")).status_code == 400
        assert (await post(world, tone(), requestId="x" * 101)).status_code == 422
        plain = await world.client.post("/api/recordings", content=b"x")
        assert plain.status_code == 400
        taken = (await post(world, tone())).json()
        owner = (await world.submissions.find(taken["submissionId"])).owner
        await world.settle()
        await world.engine.owners.set_limits(owner, OwnerLimits(waiting=1))
        assert (await post(world, tone())).status_code == 429
        await world.asgi.state.server.intake.pause("the disk is replaced")
        assert (await post(world, tone())).status_code == 503
        assert len(stored(world)) == 1

    run(sqlite_url, tmp_path, scenario)


def test_of_recordings_with_one_request_id_at_the_same_moment_one_is_kept(database_url, tmp_path):
    async def scenario(world):
        await post(world, None)  # brings a cookie: all are of one owner
        answers = await asyncio.gather(*[post(world, tone(), requestId="r") for _ in range(20)])
        assert sorted(answer.status_code for answer in answers) == [200] * 19 + [202]
        (submission_id,) = {answer.json()["submissionId"] for answer in answers}
        found = await world.submissions.find(submission_id)
        assert stored(world) == [found.payload.audio_file]

    run(database_url, tmp_path, scenario)


def test_a_recording_whose_submission_could_not_be_stored_is_deleted(
    sqlite_url, tmp_path, monkeypatch
):
    async def fail(*_):
        raise RuntimeError("the database is gone")

    async def scenario(world):
        monkeypatch.setattr(Submissions, "add", fail)
        with pytest.raises(RuntimeError):
            await post(world, tone())
        assert stored(world) == []

    run(sqlite_url, tmp_path, scenario)


def test_a_recording_whose_submission_was_stored_before_an_error_is_kept(
    sqlite_url, tmp_path, monkeypatch
):
    add = Submissions.add

    async def add_and_fail(*given):
        await add(*given)
        raise RuntimeError("the connection broke after the commit")

    async def scenario(world):
        monkeypatch.setattr(Submissions, "add", add_and_fail)
        with pytest.raises(RuntimeError):
            await post(world, tone())
        assert len(stored(world)) == 1

    run(sqlite_url, tmp_path, scenario)


def test_recordings_without_a_submission_are_deleted_and_no_others(database_url, tmp_path):
    async def scenario(world):
        await post(world, tone())
        (kept,) = stored(world)
        with world.app.files.draft() as draft:
            keep(draft, recording_name("0" * 32), b"data")
            await clean_up(world)  # its submission may be about to be stored
            assert len(stored(world)) == 2
        await clean_up(world)
        assert stored(world) == [kept]

    async def clean_up(world):
        await world.engine.enqueue("grading.delete_recordings")
        await world.engine.work(until_idle=True)

    run(database_url, tmp_path, scenario)


def test_recordings_are_deleted_by_their_age(tmp_path):
    files = ArtifactStore(tmp_path)
    files.prepare()
    old, new = (recording_name(digit * 32) for digit in "12")
    for name in (old, new):
        store(files, name)
    os.utime(files.path(old), (1000.0, 1000.0))
    assert delete_old(files, before=2000.0) == 1
    assert [each.name for each in files.list(FOLDER)] == [new]
