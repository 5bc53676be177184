"""Callbacks: each result once, in time or late, whatever comes first."""

import asyncio

import pytest
from msgspec.structs import replace
from tests.apps.grading.samples import RESULT, new_submission
from tests.apps.grading.world import grading_world

from holdfast import Permanent
from holdfast_grading.callbacks import Received, receive
from holdfast_grading.deadlines import expire
from holdfast_grading.messages import CallbackError, GradingCallback, request_id_of
from holdfast_grading.tables import Status

CREATED, DEADLINE = 1000.0, 2200.0


def result_for(submission, request_id=None):
    return GradingCallback(
        request_id=request_id or request_id_of(submission.id, submission.request_id),
        submission_id=submission.id,
        status="completed",
        result=RESULT,
    )


def error_for(submission, code):
    return GradingCallback(
        request_id=request_id_of(submission.id, submission.request_id),
        submission_id=submission.id,
        status="error",
        error=CallbackError(code, "no"),
    )


def run(url, tmp_path, scenario):
    async def main():
        async with grading_world(url, tmp_path) as world:
            submission, _ = await world.submissions.add(new_submission(), now=CREATED)
            await scenario(world, submission)

    asyncio.run(main())


async def state(world, submission):
    found = await world.submissions.find(submission.id)
    return found.status, found.failure_reason, found.score


def test_a_result_completes_its_submission_once(database_url, tmp_path):
    async def scenario(world, submission):
        callback = result_for(submission)
        received = await asyncio.gather(
            *(receive(world.engine, callback, 1100.0 + each) for each in range(5))
        )
        assert sorted(received) == [Received.COMPLETED, *[Received.DUPLICATE] * 4]
        assert await state(world, submission) == (Status.COMPLETED, None, 7.0)
        (stored,) = await world.submissions.results(submission.id)
        assert (stored.is_late, stored.result["grader"]) == (False, "offline")
        (progress,) = await world.submissions.progress("ann")
        assert (progress.skill, progress.count, progress.mean_score) == ("writing", 1, 7.0)
        assert await world.notices("ann") == [("COMPLETED", None)]

    run(database_url, tmp_path, scenario)


def test_a_late_result_changes_nothing_and_is_kept(database_url, tmp_path):
    async def scenario(world, submission):
        assert await expire(world.engine, now=DEADLINE + 1) == 1
        assert await receive(world.engine, result_for(submission), DEADLINE + 2) is Received.LATE
        assert await state(world, submission) == (Status.FAILED, "TIMEOUT", None)
        (stored,) = await world.submissions.results(submission.id)
        assert stored.is_late
        assert await world.submissions.progress("ann") == []
        assert await world.notices("ann") == [("FAILED", "TIMEOUT")]

    run(database_url, tmp_path, scenario)


@pytest.mark.parametrize(
    "received_at, status, reason",
    [
        (DEADLINE, Status.COMPLETED, None),
        (DEADLINE + 0.000001, Status.FAILED, "TIMEOUT"),
    ],
)
@pytest.mark.parametrize("scheduler_first", [True, False])
def test_the_time_of_receipt_decides_whichever_comes_first(
    database_url, tmp_path, received_at, status, reason, scheduler_first
):
    async def scenario(world, submission):
        if scheduler_first:
            await expire(world.engine, now=DEADLINE + 5)
        await receive(world.engine, result_for(submission), received_at)
        if not scheduler_first:
            await expire(world.engine, now=DEADLINE + 5)
        assert (await state(world, submission))[:2] == (status, reason)

    run(database_url, tmp_path, scenario)


def test_an_open_circuit_leaves_status_and_attempts_as_they_are(database_url, tmp_path):
    async def scenario(world, submission):
        await world.submissions.count_attempt(submission.id, 1)
        before = await world.submissions.find(submission.id)
        callback = error_for(submission, "CIRCUIT_OPEN")
        assert await receive(world.engine, callback, 1100.0) is Received.WAITING
        assert await world.submissions.find(submission.id) == before
        assert await world.notices("ann") == []

    run(database_url, tmp_path, scenario)


def test_an_error_fails_a_submission_and_a_result_in_time_still_completes_it(
    database_url, tmp_path
):
    async def scenario(world, submission):
        callback = error_for(submission, "AUDIO_UNREADABLE")
        assert await receive(world.engine, callback, 1100.0) is Received.FAILED
        assert await state(world, submission) == (Status.FAILED, "AUDIO_UNREADABLE", None)
        assert await receive(world.engine, callback, 1101.0) is Received.DUPLICATE
        # A person has requeued the dead letter.
        assert await receive(world.engine, result_for(submission), 1200.0) is Received.COMPLETED
        assert await receive(world.engine, callback, 1201.0) is Received.DUPLICATE
        assert (await state(world, submission))[0] is Status.COMPLETED

    run(database_url, tmp_path, scenario)


def test_a_call_that_took_too_long_is_not_taken_for_the_deadline(database_url, tmp_path):
    async def scenario(world, submission):
        callback = error_for(submission, "TIMEOUT")
        assert await receive(world.engine, callback, 1100.0) is Received.FAILED
        assert await state(world, submission) == (Status.FAILED, "GW_TIMEOUT", None)
        assert await world.notices("ann") == [("FAILED", "GW_TIMEOUT")]

    run(database_url, tmp_path, scenario)


def test_an_error_after_the_deadline_is_a_timeout(sqlite_url, tmp_path):
    async def scenario(world, submission):
        callback = error_for(submission, "GW_5XX")
        assert await receive(world.engine, callback, DEADLINE + 1) is Received.LATE
        assert (await state(world, submission))[:2] == (Status.FAILED, "TIMEOUT")

    run(sqlite_url, tmp_path, scenario)


def test_a_callback_for_an_unknown_submission_is_a_permanent_error(database_url, tmp_path):
    async def scenario(world, submission):
        callback = GradingCallback(
            request_id="r", submission_id="nothing", status="completed", result=RESULT
        )
        with pytest.raises(Permanent, match="there is no submission nothing") as refused:
            await receive(world.engine, callback, 1100.0)
        assert refused.value.code == "UNKNOWN_SUBMISSION"
        # It was not recorded as handled.
        known = result_for(submission)
        assert await receive(world.engine, known, 1100.0) is Received.COMPLETED

    run(database_url, tmp_path, scenario)


def test_the_attempts_that_a_worker_has_made_are_stored(database_url, tmp_path):
    async def scenario(world, submission):
        callback = replace(result_for(submission), attempts=3)
        assert await receive(world.engine, callback, 1100.0) is Received.COMPLETED
        assert (await world.submissions.find(submission.id)).attempts == 3

    run(database_url, tmp_path, scenario)


def test_a_callback_with_the_request_id_of_another_submission_takes_nothing_from_that_one(
    database_url, tmp_path
):
    async def scenario(world, submission):
        other, _ = await world.submissions.add(new_submission(), now=CREATED)
        wrong = result_for(submission, request_id_of(other.id, other.request_id))
        with pytest.raises(Permanent, match="has another id") as refused:
            await receive(world.engine, wrong, 1100.0)
        assert refused.value.code == "UNKNOWN_REQUEST"
        assert (await state(world, submission))[0] is Status.PENDING
        assert await receive(world.engine, result_for(other), 1100.0) is Received.COMPLETED

    run(database_url, tmp_path, scenario)
