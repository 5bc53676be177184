"""Facts about queries: single jobs, lists, streams of changes."""

from holdfast.errors import ErrorCode
from holdfast.jobs.model import Completed, EventName, Failed, JobError, JobStatus, Retry
from holdfast.jobs.store_port import RetentionRule
from holdfast.jobs.views import JobFilter
from holdfast.testing.conformance.world import BROKEN, World, fact, refusal


@fact
async def unknown_ids_are_not_an_error(world: World) -> None:
    assert await world.store.get("missing") is None
    assert await world.store.events("missing") == ()
    assert await world.store.attempts("missing") == ()
    assert await world.store.late_results("missing") == ()


@fact
async def lists_are_newest_first_and_paged_by_cursor(world: World) -> None:
    for number in range(5):
        await world.add(f"job-{number}")
    page = await world.store.list_jobs(limit=2)
    assert [job.id for job in page.jobs] == ["job-4", "job-3"]
    assert page.jobs[0].arguments is None
    await world.add("new")
    page = await world.store.list_jobs(cursor=page.next_cursor, limit=2)
    assert [job.id for job in page.jobs] == ["job-2", "job-1"]
    page = await world.store.list_jobs(cursor=page.next_cursor, limit=2)
    assert ([job.id for job in page.jobs], page.next_cursor) == (["job-0"], None)


@fact
async def an_exactly_full_page_is_the_last_one(world: World) -> None:
    await world.add("a")
    await world.add("b")
    assert (await world.store.list_jobs(limit=2)).next_cursor is None
    assert (await world.store.list_jobs(limit=1)).next_cursor is not None


@fact
async def a_foreign_cursor_is_refused(world: World) -> None:
    for cursor in ("", "nonsense", "é", "WyJhIl0", "bnVsbA", "WzEsMiwzLDRd"):
        for question in (world.store.list_jobs, world.store.dead_letters):
            with refusal(f"the cursor {cursor!r}"):
                await question(cursor=cursor)


@fact
async def every_filter_is_applied(world: World) -> None:
    await world.run("done", Completed(), owner="ann")
    error = JobError(ErrorCode.PARSE_ERROR, "page 7 is broken")
    await world.run("dead", Failed(error), owner="bob", kind="other")
    await world.finish(await world.start("twice"), Retry(0, BROKEN))
    await world.claim_one()
    world.pass_time(100)
    await world.add("slow", queue="slow", downstream="gateway")
    await world.add("gone")
    await world.store.cancel("gone", now=world.now)
    expected = [
        (JobFilter(statuses=(JobStatus.COMPLETE,)), {"done"}),
        (JobFilter(statuses=(JobStatus.FAILED,)), {"dead"}),
        (JobFilter(statuses=(JobStatus.FAILED, JobStatus.CANCELLED)), {"dead", "gone"}),
        (JobFilter(statuses=(JobStatus.QUEUED, JobStatus.PROCESSING)), {"twice", "slow"}),
        (JobFilter(statuses=(JobStatus.QUEUED, JobStatus.COMPLETE)), {"slow", "done"}),
        (JobFilter(kinds=("other",)), {"dead"}),
        (JobFilter(kinds=("work", "other")), {"done", "dead", "twice", "slow", "gone"}),
        (JobFilter(queue="slow"), {"slow"}),
        (JobFilter(downstream="gateway"), {"slow"}),
        (JobFilter(owner="ann"), {"done"}),
        (JobFilter(owner="ann", statuses=(JobStatus.FAILED,)), set()),
        (JobFilter(id="twice"), {"twice"}),
        (JobFilter(error_code=ErrorCode.PARSE_ERROR), {"dead"}),
        (JobFilter(error_text="7 is"), {"dead"}),
        (JobFilter(error_text="%"), set()),
        (JobFilter(error_group="page <n> is broken"), {"dead"}),
        (JobFilter(min_attempts=2), {"twice"}),
        (JobFilter(created_from=world.now), {"slow", "gone"}),
        (JobFilter(created_to=world.now), {"done", "dead", "twice"}),
    ]
    for where, names in expected:
        page = await world.store.list_jobs(where, now=world.now)
        assert {job.id for job in page.jobs} == names, where
    letters, _ = await world.store.dead_letters(JobFilter(kinds=("work",)))
    assert letters == ()
    letters, _ = await world.store.dead_letters(JobFilter(error_group="page <n> is broken"))
    assert [letter.job.id for letter in letters] == ["dead"]


@fact
async def changes_are_streamed_in_order_without_gaps(world: World) -> None:
    await world.run("before", Completed())
    start = await world.store.last_sequence()
    assert await world.store.changes_since(start) == ()
    await world.add("a", owner="ann")
    await world.add("b", owner="bob")
    await world.finish(await world.claim_one(), Completed())
    changes = await world.store.changes_since(start)
    assert [(event.job_id, event.name) for event in changes] == [
        ("a", EventName.QUEUED),
        ("b", EventName.QUEUED),
        ("a", EventName.PROCESSING),
        ("a", EventName.COMPLETE),
    ]
    assert [event.sequence for event in changes] == sorted(event.sequence for event in changes)
    rest = await world.store.changes_since(changes[1].sequence, limit=1)
    assert rest == changes[2:3]
    owned = await world.store.changes_since(start, owner="bob")
    assert [event.job_id for event in owned] == ["b"]
    assert await world.store.last_sequence() == changes[-1].sequence


@fact
async def sequences_are_not_used_again_after_retention(world: World) -> None:
    """A stream that resumes after everything was deleted misses nothing."""
    await world.run("a", Completed())
    last = await world.store.last_sequence()
    rule = RetentionRule("work", JobStatus.COMPLETE, max_count=0)
    assert await world.store.delete_finished(rule, now=world.now)
    await world.add("b")
    (event,) = await world.store.changes_since(last)
    assert event.job_id == "b"


@fact
async def waiting_for_changes_ends_with_a_change(world: World) -> None:
    start = await world.store.last_sequence()
    assert not await world.store.wait_for_changes(start, 0.01)
    await world.add("a")
    assert await world.store.wait_for_changes(start, 10)


@fact
async def the_oldest_ready_job_is_known_by_queue(world: World) -> None:
    first = world.now
    await world.add("low", priority=-3)
    world.pass_time(5)
    await world.add("high", priority=3)
    await world.add("slow", queue="slow", run_at=world.now + 99)
    stats = await world.store.stats()
    assert stats.oldest_ready_at == {"default": first}


@fact
async def a_ping_returns_the_time_and_the_schema_has_a_version(world: World) -> None:
    assert await world.store.ping() > 1_600_000_000
    assert await world.store.schema_version() >= 1


@fact
async def a_search_looks_at_a_window_of_jobs_and_goes_on_by_cursor(world: World) -> None:
    for number in range(10):
        await world.add(f"job-{number}", owner="ann" if number < 2 else "bob", meta='{"n": 1}')
        world.pass_time(1)
    where = JobFilter(text="job-3")
    first = await world.store.search_jobs(where, window=4, now=world.now)
    assert (first.jobs, first.complete, first.searched_from) == ((), False, world.now - 4)
    second = await world.store.search_jobs(where, cursor=first.next_cursor, window=4, now=world.now)
    assert [job.id for job in second.jobs] == ["job-3"]
    assert not second.complete
    third = await world.store.search_jobs(where, cursor=second.next_cursor, window=4, now=world.now)
    assert (third.jobs, third.complete, third.next_cursor) == ((), True, None)


@fact
async def a_search_of_dead_letters_looks_at_the_newest_and_goes_on_by_cursor(world: World) -> None:
    for number in range(10):
        await world.run(f"job-{number}", Failed(BROKEN))
        world.pass_time(1)
    where = JobFilter(text="job-3")
    first = await world.store.search_dead_letters(where, window=4)
    assert (first.letters, first.complete, first.searched_from) == ((), False, world.now - 4)
    second = await world.store.search_dead_letters(where, cursor=first.next_cursor, window=4)
    assert [letter.job.id for letter in second.letters] == ["job-3"]
    assert not second.complete
    third = await world.store.search_dead_letters(where, cursor=second.next_cursor, window=4)
    assert (third.letters, third.complete, third.next_cursor) == ((), True, None)


@fact
async def what_an_index_of_dead_letters_leads_to_is_not_bounded(world: World) -> None:
    await world.run("first", Failed(JobError(BROKEN.code, "another error")))
    for number in range(5):
        await world.run(f"job-{number}", Failed(BROKEN))
        world.pass_time(1)
    group = JobFilter(kinds=("work",), error_code=BROKEN.code, error_group="another error")
    for where in (group, JobFilter(id="first")):
        found = await world.store.search_dead_letters(where, window=2)
        assert ([letter.job.id for letter in found.letters], found.complete) == (["first"], True)
    newest = await world.store.search_dead_letters(limit=4, window=2)
    assert (len(newest.letters), newest.complete) == (4, True)


@fact
async def a_full_page_of_a_search_goes_on_after_its_last_job(world: World) -> None:
    for number in range(6):
        await world.add(f"job-{number}")
    page = await world.store.search_jobs(window=5, limit=2, now=world.now)
    assert ([job.id for job in page.jobs], page.complete) == (["job-5", "job-4"], True)
    rest = await world.store.search_jobs(cursor=page.next_cursor, limit=9, now=world.now)
    assert ([job.id for job in rest.jobs], rest.next_cursor) == (
        ["job-3", "job-2", "job-1", "job-0"], None,
    )  # fmt: skip


@fact
async def every_index_of_a_search_has_a_window_of_its_own(world: World) -> None:
    await world.run("failed-1", Failed(BROKEN), owner="ann")
    for number in range(5):
        await world.run(f"done-{number}", owner="ann")
    await world.add("waiting-1", owner="ann")
    for where, found in (
        (JobFilter(statuses=(JobStatus.FAILED,)), ["failed-1"]),
        (JobFilter(statuses=(JobStatus.QUEUED,)), ["waiting-1"]),
        (JobFilter(statuses=(JobStatus.QUEUED, JobStatus.PROCESSING)), ["waiting-1"]),
        (JobFilter(owner="ann", text="waiting"), ["waiting-1"]),
        (JobFilter(kinds=("work",), text="waiting"), ["waiting-1"]),
        (JobFilter(id="failed-1"), ["failed-1"]),
    ):
        page = await world.store.search_jobs(where, window=2, now=world.now)
        assert [job.id for job in page.jobs] == found, where


@fact
async def a_window_of_unfinished_jobs_counts_those_that_run(world: World) -> None:
    for name in ("waits-1", "runs-1", "runs-2"):
        await world.add(name, priority=0 if name.startswith("waits") else 1)
        world.pass_time(1)
    await world.claim(2)
    await world.add("waits-2")
    where = JobFilter(statuses=(JobStatus.QUEUED, JobStatus.PROCESSING))
    first = await world.store.search_jobs(where, window=2, now=world.now)
    assert ([job.id for job in first.jobs], first.complete, first.searched_from) == (
        ["waits-2", "runs-2"], False, world.now - 1,
    )  # fmt: skip
    rest = await world.store.search_jobs(where, cursor=first.next_cursor, window=9, now=world.now)
    assert ([job.id for job in rest.jobs], rest.complete) == (["runs-1", "waits-1"], True)
