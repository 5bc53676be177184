"""Facts about the audit log, runs over dead letters and figures for operators."""

from dataclasses import replace

from holdfast.jobs.model import Completed, JobStatus, Retry
from holdfast.jobs.operations_port import (
    AuditEntry,
    CounterMark,
    DeadLetterRun,
    RunAction,
    RunState,
)
from holdfast.testing.conformance.world import BROKEN, World, fact


def _entry(at: float, target: str = "gateway") -> AuditEntry:
    return AuditEntry(at, "ann", "full", "downstreams.reset", target, {"was": "OPEN"})


def _run(world: World, run_id: str) -> DeadLetterRun:
    chosen = {"kinds": ["work"]}
    return DeadLetterRun(run_id, RunAction.REQUEUE, chosen, "ann", 5.0, 10, world.now)


@fact
async def the_audit_log_is_read_newest_first_by_cursor(world: World) -> None:
    entries = [_entry(world.now + number, f"d{number}") for number in range(5)]
    for entry in entries:
        await world.store.add_audit(entry)
    second = await world.open_second()
    first = await second.audit(limit=3)
    assert first.entries == tuple(reversed(entries[2:]))
    rest = await second.audit(cursor=first.next_cursor, limit=3)
    assert rest.entries == tuple(reversed(entries[:2]))
    assert rest.next_cursor is None


@fact
async def old_and_surplus_entries_of_the_audit_log_are_deleted(world: World) -> None:
    for number in range(6):
        await world.store.add_audit(_entry(world.now + number, f"d{number}"))
    trimmed = await world.store.trim_audit(max_age=100, max_count=50, now=world.now + 102.5)
    assert trimmed == 3
    assert await world.store.trim_audit(max_age=1000, max_count=2, now=world.now + 10) == 1
    assert [entry.target for entry in (await world.store.audit()).entries] == ["d5", "d4"]


@fact
async def one_run_at_a_time_works_on_dead_letters(world: World) -> None:
    run = _run(world, "r1")
    second = await world.open_second()
    assert await world.store.begin_run(run, stale_after=30)
    assert not await second.begin_run(_run(world, "r2"), stale_after=30)
    further = replace(run, matched=4, done=3, skipped={"twin": 1}, updated_at=world.now + 1)
    assert await world.store.update_run(further, now=world.now + 1)
    assert await second.runs() == (further,)
    ended = replace(further, state=RunState.FINISHED)
    await world.store.update_run(ended, now=world.now + 1)
    assert await second.runs() == (ended,)
    assert not await second.request_run_stop()
    world.pass_time(2)
    assert await second.begin_run(_run(world, "r2"), stale_after=30)


@fact
async def a_run_learns_from_every_process_that_it_should_stop(world: World) -> None:
    run = _run(world, "r1")
    await world.store.begin_run(run, stale_after=30)
    second = await world.open_second()
    assert await second.request_run_stop()
    assert not await world.store.update_run(replace(run, matched=1), now=world.now + 1)


@fact
async def a_run_whose_process_died_is_failed_by_the_next_one(world: World) -> None:
    run = _run(world, "r1")
    await world.store.begin_run(run, stale_after=30)
    await world.store.update_run(replace(run, matched=7, done=7), now=world.now + 5)
    world.pass_time(36)
    assert await world.store.begin_run(_run(world, "r2"), stale_after=30)
    newest, before = await world.store.runs()
    assert (newest.id, newest.state) == ("r2", RunState.RUNNING)
    assert (before.id, before.state, before.done) == ("r1", RunState.FAILED, 7)
    assert not await world.store.update_run(run, now=world.now)


@fact
async def marks_are_kept_for_a_while(world: World) -> None:
    marks = [
        CounterMark(world.now + number, (("work", "complete", 1, number),), {"default": number})
        for number in range(3)
    ]
    for mark in marks:
        await world.store.add_mark(mark, keep_from=world.now + 1)
    assert await world.store.marks(0.0) == tuple(marks[1:])
    assert await world.store.marks(world.now + 2) == tuple(marks[2:])
    assert await world.store.marks(0.0, choose=lambda times: times[:1]) == (marks[1],)


@fact
async def the_jobs_that_ended_last_are_read_with_their_times(world: World) -> None:
    await world.add("j1", downstream="gateway")
    await world.add("j2")
    first = await world.claim()
    began = world.now
    world.pass_time(2)
    retried = next(claim for claim in first if claim.job_id == "j1")
    await world.finish(retried, Retry(3.0, BROKEN))
    await world.finish(next(claim for claim in first if claim is not retried), Completed())
    world.pass_time(4)
    (again,) = await world.claim()
    world.pass_time(1)
    await world.finish(again, Completed())
    newest, oldest = await world.store.finished_jobs()
    assert (newest.downstream, newest.attempts, newest.status) == (
        "gateway", 2, JobStatus.COMPLETE,
    )  # fmt: skip
    assert (newest.started_at, newest.last_attempt_at) == (began, began + 6)
    assert (newest.finished_at, newest.created_at) == (began + 7, began)
    assert (oldest.downstream, oldest.attempts, oldest.finished_at) == (None, 1, began + 2)
    assert len(await world.store.finished_jobs(limit=1)) == 1


@fact
async def the_load_of_a_worker_is_what_it_ended_of_late(world: World) -> None:
    for number in range(3):
        await world.add(f"j{number}")
    for claim in await world.claim(2, worker="w1"):
        await world.finish(claim, Completed())
    world.pass_time(100)
    for claim in await world.claim(2, worker="w2"):
        await world.finish(claim, Completed())
    loads = await world.store.worker_loads(world.now - 10)
    assert [(load.worker_id, load.attempts) for load in loads] == [("w2", 1)]
    everyone = await world.store.worker_loads(world.now - 1000)
    assert [(load.worker_id, load.attempts) for load in everyone] == [("w1", 2), ("w2", 1)]
