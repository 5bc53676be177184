"""Facts about what is committed together with a completion: new jobs, and a handler's own rows.

The "own rows" of a handler are jobs here, created on its connection, so that every store can check.
"""

from typing import Any, cast

from holdfast.jobs.client.enqueue import TransactionalEnqueue
from holdfast.jobs.dedup import DedupRule
from holdfast.jobs.downstreams.record import CallReport, Verdict
from holdfast.jobs.exceptions import LostLease
from holdfast.jobs.model import (
    Claim,
    Completed,
    EventName,
    Failed,
    Finished,
    JobStatus,
    Lease,
    NewJob,
    Outcome,
    Released,
    Retry,
)
from holdfast.jobs.store_port import Refusal
from holdfast.jobs.transaction_port import AttemptTransaction
from holdfast.resilience.breaker.transitions import CircuitState
from holdfast.testing.conformance.world import BROKEN, LEASE, World, fact, ids, refusal

DONE = Completed('"done"')


def _report(claim: Claim, *jobs: NewJob, **fields: Any) -> Finished:
    return Finished(claim.lease, DONE, duration=0.5, jobs=jobs, **fields)


async def _begun(world: World, claim: Claim, *own: str) -> AttemptTransaction:
    """Begin the transaction of an attempt, and write `own` rows in it."""
    transaction = world.store.transaction(claim.lease)
    connection = await transaction.begin()
    joined = cast(TransactionalEnqueue, world.store)
    for name in own:
        await joined.enqueue_on(connection, [NewJob(name, "own")])
    return transaction


@fact
async def the_jobs_of_a_completion_are_created_with_it(world: World) -> None:
    claim = await world.start("parent")
    children = (NewJob("c1", "work"), NewJob("c2", "other", run_at=world.now + 5))
    result = await world.tick([_report(claim, *children)], 5)
    assert result.refused == ()
    assert (await world.job("parent")).status is JobStatus.COMPLETE
    assert ids(result.claims) == ["c1"]
    assert (await world.job("c2")).ready_at == world.now + 5
    assert await world.event_names("c2") == [EventName.QUEUED]
    assert (await world.lane("other")).scheduled == 1


@fact
async def many_jobs_of_many_completions_are_created(world: World) -> None:
    await world.store.enqueue([NewJob(f"p{n}", "work") for n in range(20)], now=world.now)
    claims = await world.claim(20)
    reports = [
        _report(claim, *(NewJob(f"{claim.job_id}-{n}", "other") for n in range(30)))
        for claim in claims
    ]
    await world.tick(reports)
    assert (await world.lane("other")).ready == 600


@fact
async def a_job_that_exists_is_not_created_again_by_a_completion(world: World) -> None:
    claim = await world.start("parent")
    await world.add("twin", "other", dedup_key="key")
    jobs = (NewJob("a", "other", dedup_key="key"), NewJob("b", "other", dedup_key="new"))
    await world.tick([_report(claim, *jobs, NewJob("twin", "other"))])
    assert await world.store.get("a") is None
    assert (await world.lane("other")).ready == 2


@fact
async def the_jobs_of_an_attempt_that_does_not_complete_are_not_created(world: World) -> None:
    outcomes: tuple[Outcome, ...] = (Retry(60, BROKEN), Failed(BROKEN), Released(60))
    for number, outcome in enumerate(outcomes):
        claim = await world.start(f"parent-{number}")
        jobs = (NewJob(f"child-{number}", "other"),)
        await world.tick([Finished(claim.lease, outcome, jobs=jobs)])
        assert await world.store.get(f"child-{number}") is None


@fact
async def the_jobs_of_a_zombie_and_of_a_late_result_are_not_created(world: World) -> None:
    zombie = await world.start("a", worker="zombie")
    world.pass_time(LEASE + 1)
    await world.store.rescue(now=world.now)
    await world.claim_one("heir")
    late = await world.start("b", deadline_at=world.now + 1)
    world.pass_time(2)
    reports = [_report(zombie, NewJob("c1", "other")), _report(late, NewJob("c2", "other"))]
    result = await world.tick(reports)
    assert [each.reason for each in result.refused] == [Refusal.STALE]
    assert [each.status for each in result.overruled] == [JobStatus.FAILED]
    assert await world.store.get("c1") is await world.store.get("c2") is None


@fact
async def a_transaction_commits_rows_completion_and_jobs_at_once(world: World) -> None:
    claim = await world.start("a")
    transaction = await _begun(world, claim, "own")
    assert await world.store.get("own") is None
    report = _report(claim, NewJob("child", "other"), meta='{"http_status": 200}')
    result = await transaction.complete(report, now=world.now)
    await transaction.rollback()
    assert (result.refused, result.overruled, result.now) == ((), (), world.now)
    job = await world.job("a")
    assert (job.status, job.result, job.finished_at) == (JobStatus.COMPLETE, '"done"', world.now)
    (attempt,) = await world.store.attempts("a")
    assert (attempt.duration, attempt.meta) == (0.5, '{"http_status": 200}')
    assert (await world.job("own")).status is (await world.job("child")).status is JobStatus.QUEUED
    assert (await world.lane()).complete == 1
    assert ids(await world.claim(5)) == ["child"]


@fact
async def a_job_that_follows_itself_is_no_twin_of_the_one_that_ends(world: World) -> None:
    rule: dict[str, Any] = {"dedup_key": "chain", "dedup_rule": DedupRule(unfinished=True)}
    claim = await world.start("first", **rule)
    await world.tick([_report(claim, NewJob("second", "work", **rule))])
    (claim,) = await world.claim(5)
    transaction = await _begun(world, claim)
    await transaction.complete(_report(claim, NewJob("third", "work", **rule)), now=world.now)
    await transaction.rollback()
    assert ids(await world.claim(5)) == ["third"]


@fact
async def after_a_committed_transaction_every_report_is_refused(world: World) -> None:
    claim = await world.start("a")
    transaction = await _begun(world, claim)
    await transaction.complete(_report(claim), now=world.now)
    await transaction.rollback()
    for outcome in (Completed('"again"'), Released(), Retry(0, BROKEN), Failed(BROKEN)):
        (refused,) = (await world.finish(claim, outcome)).refused
        assert refused.reason is Refusal.STALE
    assert (await world.job("a")).result == '"done"'
    assert (await world.extend([claim.lease])).lost == (claim.lease,)


@fact
async def a_transaction_that_is_rolled_back_leaves_the_job_running(world: World) -> None:
    claim = await world.start("a")
    transaction = await _begun(world, claim, "own")
    await transaction.rollback()
    await transaction.rollback()
    assert await world.store.get("own") is None
    assert (await world.extend([claim.lease])).lost == ()
    assert (await world.finish(claim, DONE)).refused == ()


@fact
async def a_zombie_cannot_begin_a_transaction(world: World) -> None:
    zombie = await world.start("a", worker="zombie")
    world.pass_time(LEASE + 1)
    await world.store.rescue(now=world.now)
    for _ in ("while it waits", "while another runs it"):
        transaction = world.store.transaction(zombie.lease)
        with refusal("a zombie's transaction", kind=LostLease):
            await transaction.begin()
        await transaction.rollback()
        await world.claim()
    assert (await world.job("a")).worker_id == "worker-1"


@fact
async def the_completion_of_a_transaction_is_fenced(world: World) -> None:
    """Another token or another worker: refused, and the handler's rows are not committed."""
    claim = await world.start("a")
    lease = claim.lease
    stale = (
        Lease(lease.job_id, lease.token - 1, lease.worker_id, lease.expires_at),
        Lease(lease.job_id, lease.token + 1, lease.worker_id, lease.expires_at),
    )
    for number, other in enumerate(stale):
        transaction = await _begun(world, claim, f"own-{number}")
        report = Finished(other, DONE, jobs=(NewJob(f"child-{number}", "other"),))
        result = await transaction.complete(report, now=world.now)
        await transaction.rollback()
        assert [each.reason for each in result.refused] == [Refusal.STALE]
        assert await world.store.get(f"own-{number}") is None
        assert await world.store.get(f"child-{number}") is None
    assert (await world.job("a")).status is JobStatus.PROCESSING


@fact
async def a_transaction_after_the_deadline_is_rolled_back(world: World) -> None:
    claim = await world.start("a", deadline_at=world.now + 1)
    transaction = await _begun(world, claim, "own")
    world.pass_time(2)
    result = await transaction.complete(_report(claim), now=world.now)
    await transaction.rollback()
    assert [each.status for each in result.overruled] == [JobStatus.FAILED]
    assert await world.store.get("own") is None
    assert (await world.job("a")).status is JobStatus.PROCESSING
    assert await world.store.late_results("a") == ()


@fact
async def the_call_of_a_transaction_counts_for_its_downstream(world: World) -> None:
    await world.open_gateway(waiting=3)
    world.pass_time(31)
    trials = await world.claim()
    assert len(trials) == 2
    moved: list[str] = []
    for trial in trials:
        assert trial.downstream is not None
        assert trial.permit is not None
        transaction = await _begun(world, trial)
        call = CallReport(trial.downstream, trial.permit, Verdict.SUCCESS)
        result = await transaction.complete(_report(trial, report=call), now=world.now)
        await transaction.rollback()
        moved += [record.name for record in result.moved]
    assert moved == ["gateway"]
    assert (await world.downstream()).state_at(world.now) is CircuitState.CLOSED


@fact
async def a_job_can_be_cancelled_while_its_transaction_is_open_and_completes(world: World) -> None:
    claim = await world.start("a")
    await world.store.cancel("a", now=world.now)
    transaction = await _begun(world, claim, "own")
    await transaction.complete(_report(claim), now=world.now)
    await transaction.rollback()
    assert (await world.job("a")).status is JobStatus.COMPLETE
    assert (await world.job("own")).status is JobStatus.QUEUED
