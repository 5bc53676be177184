"""Uploaded recordings: taken in over HTTP with limits, and deleted when they are old."""

import asyncio
import os

from tests.apps.grading.sounds import tone
from tests.apps.grading.world import served_world

from holdfast.files import ArtifactStore
from holdfast_grading.recordings import FOLDER, delete_old, keep


def test_a_recording_is_uploaded_once_for_one_request_id(sqlite_url, tmp_path):
    async def main():
        settings = {"stt_base_url": "http://127.0.0.1:1/v1", "max_audio_bytes": 400_000}
        async with served_world(sqlite_url, tmp_path, **settings) as world:

            async def post(data, **fields):
                files = {"file": ("talk.wav", data, "audio/wav")} if data is not None else {}
                parts = {name: (None, value) for name, value in fields.items()}
                return await world.client.post("/api/recordings", files={**files, **parts})

            first = await post(tone(), requestId="talk-1")
            again = await post(tone(), requestId="talk-1")
            assert (first.status_code, again.status_code) == (202, 200)
            assert first.json()["submissionId"] == again.json()["submissionId"]
            found = await world.submissions.find(first.json()["submissionId"])
            stored = world.app.files.path(found.payload.audio_file)
            assert stored.read_bytes() == tone()
            assert (await post(b"x" * 400_001)).status_code == 413
            assert (await post(b"x" * 700_001)).status_code == 413
            assert (await post(None, requestId="talk-2")).status_code == 400
            assert (await post(tone(), requestId="x" * 101)).status_code == 422
            plain = await world.client.post("/api/recordings", content=b"x")
            assert plain.status_code == 400

    asyncio.run(main())


def test_recordings_are_deleted_by_their_age(tmp_path):
    files = ArtifactStore(tmp_path)
    files.prepare()
    old, new = (keep(files, b"data") for _ in range(2))
    os.utime(files.path(old), (1000.0, 1000.0))
    assert delete_old(files, before=2000.0) == 1
    assert [each.name for each in files.list(FOLDER)] == [new]
