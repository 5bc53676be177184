"""Facts about enqueueing."""

# ruff: noqa: D401 - the docstring of a fact states, it does not command

import asyncio

from holdfast.jobs.client.ids import new_ids
from holdfast.jobs.model import (
    Completed,
    DeadLetterReason,
    EventName,
    Failed,
    JobError,
    JobStatus,
    NewJob,
)
from holdfast.jobs.store_port import Change
from holdfast.testing.conformance.world import BROKEN, World, fact, ids


@fact
async def a_new_job_is_read_as_it_was_given(world: World) -> None:
    """Every field is stored and read unchanged."""
    await world.store.enqueue(
        [
            NewJob(
                "a",
                "work",
                queue="slow",
                arguments='{"n": [1, "ü\\u0000 \'"]}',
                downstream="gateway",
                priority=-7,
                max_attempts=5,
                run_at=world.now + 5,
                deadline_at=world.now + 90.25,
                dedup_key="k",
                owner="ann",
                meta='{"size":1}',
            )
        ],
        now=world.now,
    )
    job = await world.job("a")
    assert job.arguments == '{"n": [1, "ü\\u0000 \'"]}'
    assert (job.kind, job.queue, job.downstream) == ("work", "slow", "gateway")
    assert (job.priority, job.max_attempts, job.attempt_count, job.token) == (-7, 5, 0, 0)
    assert (job.status, job.ready_at) == (JobStatus.QUEUED, world.now + 5)
    assert (job.created_at, job.queued_at, job.deadline_at) == (
        world.now,
        world.now,
        world.now + 90.25,
    )
    assert (job.dedup_key, job.owner, job.meta) == ("k", "ann", '{"size":1}')
    assert job.result is None
    assert job.error is None
    assert job.worker_id is None
    assert job.lease_expires_at is None
    assert not job.held


@fact
async def a_bulk_answers_in_its_own_order(world: World) -> None:
    """The n-th answer belongs to the n-th job, and the jobs run in that order."""
    names = [f"job-{number:03d}" for number in (5, 3, 9, 1)]
    answers = await world.store.enqueue([NewJob(name, "work") for name in names], now=world.now)
    assert [(answer.id, answer.created) for answer in answers] == [(name, True) for name in names]
    assert ids(await world.claim()) == names


@fact
async def enqueueing_nothing_does_nothing(world: World) -> None:
    """An empty bulk is not an error."""
    assert await world.store.enqueue([], now=world.now) == ()


@fact
async def the_same_id_again_is_the_same_job(world: World) -> None:
    """A caller that got no answer may repeat the call."""
    assert (await world.add("a")).created
    again = await world.add("a", arguments='"other"')
    assert (again.id, again.created) == ("a", False)
    assert (await world.job("a")).arguments == "null"
    assert len(await world.store.events("a")) == 1


@fact
async def ids_that_come_again_in_a_bulk_are_the_same_jobs(world: World) -> None:
    """However they come again: all of them, some among others, or one alone."""
    made = new_ids(5, world.now)
    for names, created in (
        ([made[1]], [True]),
        (made, [True, False, True, True, True]),
        (made, [False] * 5),
        (["a", made[2], "b"], [True, False, True]),
        ([made[3]], [False]),
        (made[:2], [False] * 2),
    ):
        answers = await world.store.enqueue([NewJob(one, "work") for one in names], now=world.now)
        assert [(answer.id, answer.created) for answer in answers] == list(
            zip(names, created, strict=True)
        )
    assert (await world.lane()).ready == 7


@fact
async def a_bulk_may_hold_jobs_of_both_statuses(world: World) -> None:
    """Answers and jobs keep the order of the bulk."""
    statuses = [JobStatus.UPLOADED, JobStatus.QUEUED, JobStatus.QUEUED, JobStatus.UPLOADED]
    made = new_ids(4, world.now)
    jobs = [NewJob(one, "work", status=status) for one, status in zip(made, statuses, strict=True)]
    answers = await world.store.enqueue(jobs, now=world.now)
    assert [(answer.id, answer.created) for answer in answers] == [(one, True) for one in made]
    assert [(await world.job(one)).status for one in made] == statuses
    assert [str(event.name) for event in await world.store.events(made[3])] == ["uploaded"]
    assert [job.id for job in (await world.store.list_jobs()).jobs] == made[::-1]
    assert ids(await world.claim()) == made[1:3]


@fact
async def a_twin_that_waits_is_returned(world: World) -> None:
    """One key, one job: the second is not created."""
    await world.add("a", dedup_key="k")
    twin = await world.add("b", dedup_key="k")
    assert (twin.id, twin.created) == ("a", False)
    assert await world.store.get("b") is None


@fact
async def a_twin_that_runs_or_is_complete_is_returned(world: World) -> None:
    """In progress and complete both count."""
    await world.add("a", dedup_key="k")
    claim = await world.claim_one()
    assert (await world.add("b", dedup_key="k")).id == "a"
    await world.finish(claim, Completed("1"))
    assert (await world.add("c", dedup_key="k")).id == "a"


@fact
async def a_failed_or_cancelled_twin_does_not_prevent_a_new_job(world: World) -> None:
    """Only unfinished and complete twins count."""
    await world.run("a", Failed(BROKEN), dedup_key="k")
    assert (await world.add("b", dedup_key="k")).created
    assert await world.store.cancel("b", now=world.now) is Change.DONE
    assert (await world.add("c", dedup_key="k")).created


@fact
async def twins_are_of_one_kind(world: World) -> None:
    """Kinds do not share keys."""
    await world.add("a", dedup_key="k")
    assert (await world.add("b", "other", dedup_key="k")).created


@fact
async def twins_within_one_bulk_are_found(world: World) -> None:
    """The first of them is created; the others return its id."""
    jobs = [
        NewJob("a", "work", dedup_key="k"),
        NewJob("b", "work"),
        NewJob("c", "work", dedup_key="k"),
        NewJob("b", "work"),
    ]
    answers = await world.store.enqueue(jobs, now=world.now)
    assert [(answer.id, answer.created) for answer in answers] == [
        ("a", True),
        ("b", True),
        ("a", False),
        ("b", False),
    ]
    assert (await world.lane()).ready == 2


@fact
async def a_job_that_is_not_created_keeps_no_key_from_those_after_it(world: World) -> None:
    """A bulk whose first job has an id that is taken creates the next one of its key."""
    await world.store.enqueue([NewJob("a", "work")], now=world.now)
    first, second, third = await world.store.enqueue(
        [NewJob(name, "work", dedup_key="k") for name in ("a", "b", "c")], now=world.now
    )
    assert (first.id, first.created) == ("a", False)
    assert (second.id, second.created) == ("b", True)
    assert (third.id, third.created) == ("b", False)


@fact
async def an_id_that_comes_again_in_a_bulk_is_created_where_the_first_was_not(
    world: World,
) -> None:
    """The first of them has a twin; the second one is the job that was asked for, as it was."""
    await world.add("first", dedup_key="k")
    jobs = [NewJob("x", "work", arguments="1", dedup_key="k"), NewJob("x", "work", arguments="2")]
    answers = await world.store.enqueue([*jobs, jobs[1]], now=world.now)
    assert [(answer.id, answer.created) for answer in answers] == [
        ("first", False),
        ("x", True),
        ("x", False),
    ]
    job = await world.job("x")
    assert (job.arguments, job.dedup_key) == ("2", None)
    assert (await world.lane()).ready == 2


@fact
async def concurrent_callers_create_one_twin(world: World) -> None:
    """Twenty callers on two handles, one job."""
    second = await world.open_second()
    calls = [
        store.enqueue([NewJob(f"{name}-{number}", "work", dedup_key="k")], now=world.now)
        for number in range(10)
        for name, store in (("first", world.store), ("second", second))
    ]
    answers = [answer for (answer,) in await asyncio.gather(*calls)]
    assert sum(answer.created for answer in answers) == 1
    assert len({answer.id for answer in answers}) == 1
    assert len((await world.store.list_jobs()).jobs) == 1


@fact
async def a_bulk_is_all_or_nothing(world: World) -> None:
    """One invalid job refuses the whole call."""
    try:
        await world.store.enqueue(
            [NewJob("a", "work"), NewJob("b", "work", max_attempts=0)], now=world.now
        )
    except ValueError as error:
        assert "max_attempts" in str(error)  # noqa: PT017 - a fact runs without pytest
    else:
        raise AssertionError("a job without attempts was accepted")
    assert await world.store.get("a") is None


@fact
async def a_job_is_created_uploaded_or_queued_only(world: World) -> None:
    """A finished job cannot be created."""
    for status in set(JobStatus) - {JobStatus.UPLOADED, JobStatus.QUEUED}:
        try:
            await world.add("a", status=status)
        except ValueError:
            continue
        raise AssertionError(f"a job was created {status}")
    assert await world.store.get("a") is None


@fact
async def an_uploaded_job_waits_for_its_submission(world: World) -> None:
    """It is not claimed before, and once it is submitted it is."""
    await world.add("a", status=JobStatus.UPLOADED)
    assert await world.claim() == ()
    assert (await world.job("a")).queued_at is None
    world.pass_time(3)
    assert await world.store.submit("a", now=world.now) is Change.DONE
    assert await world.store.submit("a", now=world.now) is Change.REFUSED
    assert await world.store.submit("missing", now=world.now) is Change.MISSING
    assert (await world.job("a")).queued_at == world.now
    assert ids(await world.claim()) == ["a"]
    names = [event.name for event in await world.store.events("a")]
    assert names == [EventName.UPLOADED, EventName.QUEUED, EventName.PROCESSING]


@fact
async def a_rejected_upload_is_a_failed_job_and_no_dead_letter(world: World) -> None:
    """It is stored with its code."""
    await world.add("a", status=JobStatus.UPLOADED)
    error = JobError("NOT_A_RECEIPT", "this is not a receipt")
    assert await world.store.reject("a", error, now=world.now) is Change.DONE
    job = await world.job("a")
    assert (job.status, job.error, job.dead_letter) == (JobStatus.FAILED, error, None)
    assert job.failed_at == world.now
    assert await world.store.reject("a", error, now=world.now) is Change.REFUSED
    assert await world.store.reject("missing", error, now=world.now) is Change.MISSING
    assert (await world.store.events("a"))[-1].error_code == "NOT_A_RECEIPT"


@fact
async def a_dead_letter_reason_is_kept(world: World) -> None:
    """For every reason."""
    for reason in DeadLetterReason:
        job = await world.run(reason, Failed(BROKEN, reason))
        assert job.dead_letter is reason
