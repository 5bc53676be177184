"""The API of grading: submissions handed in, listed and shown, and what is refused."""

import asyncio

from tests.apps.grading.samples import ESSAY, RESULT
from tests.apps.grading.world import served_world

from holdfast_grading.callbacks import receive
from holdfast_grading.messages import GradingCallback, request_id_of

WRITING = {"skill": "writing", "text": ESSAY}


def run(url, tmp_path, scenario, **settings):
    async def main():
        async with served_world(url, tmp_path, **settings) as world:
            await scenario(world, world.client)

    asyncio.run(main())


async def post(client, **body):
    return await client.post("/api/submissions", json=body)


def test_a_submission_is_taken_in_graded_and_shown(database_url, tmp_path):
    async def scenario(world, client):
        answer = await post(client, **WRITING, requestId="essay-1")
        assert answer.status_code == 202
        taken = answer.json()
        assert (taken["requestId"], taken["status"]) == ("essay-1", "PENDING")
        again = await post(client, **WRITING, requestId="essay-1")
        assert again.status_code == 200
        assert again.json() == {**taken, "deduplicated": True}
        await world.settle()
        path = f"/api/submissions/{taken['submissionId']}"
        shown = (await client.get(path)).json()
        assert (shown["status"], shown["text"], shown["attempts"]) == ("COMPLETED", ESSAY, 1)
        assert shown["result"]["grader"] == "offline"
        assert (shown["failureReason"], shown["lateResults"]) == (None, [])
        assert shown["deadlineAt"] == taken["deadlineAt"]
        progress = (await client.get("/api/progress")).json()
        assert progress == {
            "skills": [{"skill": "writing", "count": 1, "meanScore": shown["score"]}]
        }

    run(database_url, tmp_path, scenario)


def test_a_late_result_is_shown_apart_and_leaves_the_progress_as_it_is(sqlite_url, tmp_path):
    async def scenario(world, client):
        taken = (await post(client, **WRITING)).json()
        callback = GradingCallback(
            request_id=request_id_of(taken["submissionId"], taken["requestId"]),
            submission_id=taken["submissionId"],
            status="completed",
            result=RESULT,
        )
        await receive(world.engine, callback, world.engine.clock.wall() + 1201)
        shown = (await client.get(f"/api/submissions/{taken['submissionId']}")).json()
        assert (shown["status"], shown["failureReason"]) == ("FAILED", "TIMEOUT")
        assert shown["result"] is None
        (late,) = shown["lateResults"]
        assert (late["isLate"], late["result"]["score"]) == (True, 7.0)
        assert (await client.get("/api/progress")).json() == {"skills": []}

    run(sqlite_url, tmp_path, scenario)


def test_submissions_are_listed_with_filters_and_a_cursor(sqlite_url, tmp_path):
    async def scenario(world, client):
        ids = [(await post(client, **WRITING)).json()["submissionId"] for _ in range(3)]
        first = (await client.get("/api/submissions", params={"limit": 2})).json()
        assert [each["submissionId"] for each in first["submissions"]] == ids[:0:-1]
        params = {"limit": 2, "cursor": first["nextCursor"]}
        rest = (await client.get("/api/submissions", params=params)).json()
        assert [each["submissionId"] for each in rest["submissions"]] == ids[:1]
        assert rest["nextCursor"] is None
        for query, count in (("skill=speaking", 0), ("status=PENDING", 3), ("status=FAILED", 0)):
            found = (await client.get(f"/api/submissions?{query}")).json()["submissions"]
            assert len(found) == count
        for query in ("skill=juggling", "status=DONE", "cursor=x", "limit=0"):
            assert (await client.get(f"/api/submissions?{query}")).status_code in {400, 422}

    run(sqlite_url, tmp_path, scenario)


def test_submissions_of_others_look_as_if_they_did_not_exist(sqlite_url, tmp_path):
    async def scenario(world, client):
        taken = (await post(client, **WRITING)).json()
        stranger = await world.browser()
        known = await stranger.get(f"/api/submissions/{taken['submissionId']}")
        unknown = await stranger.get("/api/submissions/" + "0" * 32)
        assert known.status_code == unknown.status_code == 403
        assert known.json() == unknown.json()
        assert (await stranger.get("/api/submissions")).json()["submissions"] == []
        assert (await stranger.get("/api/submissions/x")).status_code == 403

    run(sqlite_url, tmp_path, scenario)


REFUSED = [
    ({"skill": "juggling", "text": "x"}, 400, "UNKNOWN_SKILL"),
    ({"skill": "writing", "text": " \n"}, 400, "TEXT_EMPTY"),
    ({"skill": "writing", "text": "x" * 20_001}, 413, "TEXT_TOO_LONG"),
    ({"skill": "writing", "text": "a\0b"}, 422, "VALIDATION_ERROR"),
    ({"skill": "writing"}, 422, "VALIDATION_ERROR"),
    ({"skill": "writing", "text": "x", "requestId": "\u0007"}, 422, "VALIDATION_ERROR"),
    ({"skill": "speaking", "text": "x"}, 422, "VALIDATION_ERROR"),
    ({"skill": "speaking"}, 422, "VALIDATION_ERROR"),
    ({"skill": "speaking", "audioUrl": "http://10.0.0.1/a.wav"}, 422, "URL_REFUSED"),
    ({"skill": "speaking", "audioUrl": "file:///etc/passwd"}, 400, "URL_INVALID"),
]


def test_what_cannot_be_graded_is_refused_with_a_clear_error(sqlite_url, tmp_path):
    async def scenario(world, client):
        for body, status, code in REFUSED:
            answer = await post(client, **body)
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (status, code), body
            assert error["message"].endswith(".")
        assert (await client.get("/api/submissions")).json()["submissions"] == []

    run(sqlite_url, tmp_path, scenario, stt_base_url="http://127.0.0.1:1/v1")


def test_speech_is_refused_where_no_endpoint_turns_it_into_text(sqlite_url, tmp_path):
    async def scenario(world, client):
        answer = await post(client, skill="speaking", audioUrl="https://site.example/a.wav")
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (409, "SPEAKING_OFF")
        assert "STT_BASE_URL" in error["message"]

    run(sqlite_url, tmp_path, scenario)


def test_while_the_intake_is_paused_no_submission_is_taken_in(sqlite_url, tmp_path):
    async def scenario(world, client):
        await world.engine.intake.pause("the disk is replaced")
        answer = await post(client, **WRITING)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "INTAKE_PAUSED")
        assert answer.headers["retry-after"] == "30"
        recording = {"file": ("a.wav", b"RIFF", "audio/wav")}
        answer = await client.post("/api/recordings", files=recording)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "INTAKE_PAUSED")
        assert (await client.get("/api/submissions")).json()["submissions"] == []

    run(sqlite_url, tmp_path, scenario, stt_base_url="http://127.0.0.1:9")
