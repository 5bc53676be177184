"""Facts about enqueueing."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from holdfast.ids import new_ids
from holdfast.jobs.model import (
    Completed,
    DeadLetterReason,
    Enqueued,
    EventName,
    Failed,
    JobError,
    JobStatus,
    NewJob,
)
from holdfast.jobs.store_port import Change, StoreError
from holdfast.testing.conformance.world import BROKEN, World, fact, ids, refusal

_SEVERAL_STATEMENTS = 10_001
"""More jobs than a store creates by one statement."""


def _pairs(answers: Iterable[Enqueued]) -> list[tuple[str, bool]]:
    return [(answer.id, answer.created) for answer in answers]


@fact
async def a_new_job_is_read_as_it_was_given(world: World) -> None:
    await world.add(
        "a",
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
    job = await world.job("a")
    assert job.arguments == '{"n": [1, "ü\\u0000 \'"]}'
    assert (job.kind, job.queue, job.downstream) == ("work", "slow", "gateway")
    assert (job.priority, job.max_attempts, job.attempt_count, job.token) == (-7, 5, 0, 0)
    assert (job.status, job.ready_at) == (JobStatus.QUEUED, world.now + 5)
    assert (job.created_at, job.queued_at) == (world.now, world.now)
    assert job.deadline_at == world.now + 90.25
    assert (job.dedup_key, job.owner, job.meta) == ("k", "ann", '{"size":1}')
    assert (job.result, job.error, job.held) == (None, None, False)
    assert (job.worker_id, job.lease_expires_at) == (None, None)


@fact
async def a_bulk_answers_in_its_own_order(world: World) -> None:
    """The n-th answer belongs to the n-th job, and the jobs run in that order."""
    names = [f"job-{number:03d}" for number in (5, 3, 9, 1)]
    answers = await world.store.enqueue([NewJob(name, "work") for name in names], now=world.now)
    assert _pairs(answers) == [(name, True) for name in names]
    assert ids(await world.claim()) == names


@fact
async def a_job_alone_is_stored_as_in_a_bulk(world: World) -> None:
    """A store may have a quicker way for one, perhaps only in a lane that exists already."""
    fields: list[dict[str, Any]] = [
        {},
        {"status": JobStatus.UPLOADED},
        {"run_at": world.now + 5, "priority": -7, "max_attempts": 9},
        {"deadline_at": world.now + 9, "owner": "ann", "meta": "{}", "arguments": "[1]"},
        {"queue": "slow", "downstream": "gateway"},
    ]
    for number, given in enumerate(fields):
        await world.add(f"alone-{number}", **given)
        await world.add(f"again-{number}", **given)
    bulk = [NewJob(f"bulk-{number}", "work", **given) for number, given in enumerate(fields)]
    await world.store.enqueue(bulk, now=world.now)
    for number in range(len(fields)):
        other = await world.job(f"bulk-{number}")
        (same,) = await world.store.events(other.id)
        for name in (f"alone-{number}", f"again-{number}"):
            assert replace(await world.job(name), id=other.id) == other
            (event,) = await world.store.events(name)
            assert (event.name, event.at, event.attempt) == (same.name, same.at, same.attempt)
    lanes = (await world.store.stats()).lanes
    counts = {lane.queue: (lane.ready, lane.scheduled, lane.uploaded) for lane in lanes}
    assert counts == {"default": (6, 3, 3), "slow": (3, 0, 0)}


@fact
async def enqueueing_nothing_does_nothing(world: World) -> None:
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
        assert _pairs(answers) == list(zip(names, created, strict=True))
    assert (await world.lane()).ready == 7


@fact
async def a_bulk_may_hold_jobs_of_both_statuses(world: World) -> None:
    statuses = [JobStatus.UPLOADED, JobStatus.QUEUED, JobStatus.QUEUED, JobStatus.UPLOADED]
    made = new_ids(4, world.now)
    jobs = [NewJob(one, "work", status=status) for one, status in zip(made, statuses, strict=True)]
    answers = await world.store.enqueue(jobs, now=world.now)
    assert _pairs(answers) == [(one, True) for one in made]
    assert [(await world.job(one)).status for one in made] == statuses
    assert [str(event.name) for event in await world.store.events(made[3])] == ["uploaded"]
    assert [job.id for job in (await world.store.list_jobs()).jobs] == made[::-1]
    assert ids(await world.claim()) == made[1:3]


@fact
async def a_twin_that_waits_is_returned(world: World) -> None:
    await world.add("a", dedup_key="k")
    twin = await world.add("b", dedup_key="k")
    assert (twin.id, twin.created) == ("a", False)
    assert await world.store.get("b") is None


@fact
async def a_twin_that_runs_or_is_complete_is_returned(world: World) -> None:
    claim = await world.start("a", dedup_key="k")
    assert (await world.add("b", dedup_key="k")).id == "a"
    await world.finish(claim, Completed("1"))
    assert (await world.add("c", dedup_key="k")).id == "a"


@fact
async def a_failed_or_cancelled_twin_does_not_prevent_a_new_job(world: World) -> None:
    await world.run("a", Failed(BROKEN), dedup_key="k")
    assert (await world.add("b", dedup_key="k")).created
    assert await world.store.cancel("b", now=world.now) is Change.DONE
    assert (await world.add("c", dedup_key="k")).created


@fact
async def twins_are_of_one_kind(world: World) -> None:
    await world.add("a", dedup_key="k")
    assert (await world.add("b", "other", dedup_key="k")).created


@fact
async def twins_within_one_bulk_are_found(world: World) -> None:
    jobs = [
        NewJob("a", "work", dedup_key="k"),
        NewJob("b", "work"),
        NewJob("c", "work", dedup_key="k"),
        NewJob("b", "work"),
    ]
    answers = await world.store.enqueue(jobs, now=world.now)
    assert _pairs(answers) == [("a", True), ("b", True), ("a", False), ("b", False)]
    assert (await world.lane()).ready == 2


@fact
async def a_job_that_is_not_created_keeps_no_key_from_those_after_it(world: World) -> None:
    """A bulk whose first job has an id that is taken creates the next one of its key."""
    await world.store.enqueue([NewJob("a", "work")], now=world.now)
    jobs = [NewJob(name, "work", dedup_key="k") for name in ("a", "b", "c")]
    answers = await world.store.enqueue(jobs, now=world.now)
    assert _pairs(answers) == [("a", False), ("b", True), ("b", False)]


@fact
async def an_id_that_comes_again_in_a_bulk_is_created_where_the_first_was_not(
    world: World,
) -> None:
    """The first of them has a twin; the second one is the job that was asked for, as it was."""
    await world.add("first", dedup_key="k")
    jobs = [NewJob("x", "work", arguments="1", dedup_key="k"), NewJob("x", "work", arguments="2")]
    answers = await world.store.enqueue([*jobs, jobs[1]], now=world.now)
    assert _pairs(answers) == [("first", False), ("x", True), ("x", False)]
    job = await world.job("x")
    assert (job.arguments, job.dedup_key) == ("2", None)
    assert (await world.lane()).ready == 2


@fact
async def concurrent_callers_create_one_twin(world: World) -> None:
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
async def bulks_with_common_keys_at_once_share_their_jobs(world: World) -> None:
    """One job per key, no error, and every caller gets the same job."""
    keys = [f"key-{number}" for number in range(40)]

    async def add(caller: int) -> dict[str, Enqueued]:
        some = keys[caller : caller + 25] if caller % 2 else keys[caller : caller + 25][::-1]
        jobs = [NewJob(f"{caller}-{key}", "work", dedup_key=key) for key in some]
        answers = await world.store.enqueue(jobs, now=world.now)
        return dict(zip(some, answers, strict=True))

    answers = await asyncio.gather(*map(add, range(16)))
    for key in keys:
        found = [some[key] for some in answers if key in some]
        assert len({answer.id for answer in found}) == 1
        assert sum(answer.created for answer in found) == 1
    assert (await world.lane()).ready == len(keys)


@fact
async def a_large_bulk_with_keys_is_answered_in_its_own_order(world: World) -> None:
    """Half of thousands of jobs have twins already."""
    first = [NewJob(f"first-{n}", "work", dedup_key=f"{n}") for n in range(0, 4000, 2)]
    await world.store.enqueue(first, now=world.now)
    second = [NewJob(f"second-{n}", "work", dedup_key=f"{n}") for n in range(4000)]
    answers = await world.store.enqueue(second, now=world.now)
    assert [(answer.id, answer.created) for answer in answers] == [
        (f"second-{n}", True) if n % 2 else (f"first-{n}", False) for n in range(4000)
    ]
    assert (await world.lane()).ready == 4000


class _UncheckedJob(NewJob, frozen=True):
    """A job that only the store itself can refuse."""

    def __post_init__(self) -> None:
        """Accept everything."""


@fact
async def a_bulk_is_all_or_nothing(world: World) -> None:
    """The job that the store refuses is in the last of the statements that create the bulk."""
    await world.add("before")
    sound = [
        NewJob(f"job-{number:05}", "work", dedup_key=f"{number:05}")
        for number in range(_SEVERAL_STATEMENTS)
    ]
    keyless = [NewJob(job.id, "work") for job in sound]
    unsound = _UncheckedJob("last", "other", max_attempts=0)
    with_key = _UncheckedJob("last", "other", max_attempts=0, dedup_key="last")
    bulks = ([*keyless, unsound], [*keyless, keyless[0], unsound], [*sound, with_key])
    for bulk in bulks:
        with refusal("a job without attempts", kind=StoreError):
            await world.store.enqueue(bulk, now=world.now)
    assert (await world.lane()).ready == 1
    assert await world.store.get(sound[0].id) is None
    assert ids(await world.claim()) == ["before"]
    assert all(answer.created for answer in await world.store.enqueue(sound, now=world.now))


@fact
async def a_job_is_created_uploaded_or_queued_only(world: World) -> None:
    for status in set(JobStatus) - {JobStatus.UPLOADED, JobStatus.QUEUED}:
        with refusal(f"a job that is created {status}"):
            await world.add("a", status=status)
    assert await world.store.get("a") is None


@fact
async def an_uploaded_job_waits_for_its_submission(world: World) -> None:
    await world.add("a", status=JobStatus.UPLOADED)
    assert await world.claim() == ()
    assert (await world.job("a")).queued_at is None
    world.pass_time(3)
    assert await world.store.submit("a", now=world.now) is Change.DONE
    assert await world.store.submit("a", now=world.now) is Change.REFUSED
    assert await world.store.submit("missing", now=world.now) is Change.MISSING
    assert (await world.job("a")).queued_at == world.now
    assert ids(await world.claim()) == ["a"]
    names = await world.event_names("a")
    assert names == [EventName.UPLOADED, EventName.QUEUED, EventName.PROCESSING]


@fact
async def a_rejected_upload_is_a_failed_job_and_no_dead_letter(world: World) -> None:
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
    for reason in DeadLetterReason:
        job = await world.run(reason, Failed(BROKEN, reason))
        assert job.dead_letter is reason
