"""Facts about leases and tokens: a zombie changes nothing."""

from holdfast.jobs.model import (
    Cancelled,
    Claim,
    Completed,
    Failed,
    Finished,
    JobStatus,
    Lease,
    Outcome,
    Released,
    Retry,
)
from holdfast.jobs.store_port import Refusal
from holdfast.testing.conformance.world import BROKEN, LEASE, World, fact, ids

OUTCOMES: tuple[Outcome, ...] = (
    Completed('"zombie"'),
    Retry(5, BROKEN),
    Failed(BROKEN),
    Released(),
    Cancelled(),
)


async def _taken_over(world: World, heir: str = "heir") -> tuple[Claim, Claim]:
    """Return the claim of a worker that lost its lease, and the current claim by `heir`."""
    zombie = await world.start("a", worker="zombie")
    world.pass_time(LEASE + 1)
    await world.store.rescue(now=world.now)
    return zombie, await world.claim_one(heir)


@fact
async def each_claim_raises_the_token_and_counts_the_attempt(world: World) -> None:
    first = await world.start("a", max_attempts=3)
    assert (first.lease.token, first.attempt) == (1, 1)
    job = await world.job("a")
    assert (job.token, job.attempt_count, job.status) == (1, 1, JobStatus.PROCESSING)
    assert (job.worker_id, job.lease_expires_at) == ("worker-1", world.now + LEASE)
    await world.finish(first, Retry(0, BROKEN))
    second = await world.claim_one()
    assert (second.lease.token, second.attempt) == (2, 2)


@fact
async def a_running_job_is_not_claimed_again(world: World) -> None:
    """Not even after its lease expired: it must be rescued first."""
    await world.start("a")
    world.pass_time(LEASE * 10)
    assert await world.claim() == ()


@fact
async def every_report_of_a_zombie_is_refused(world: World) -> None:
    """Complete, retry, fail, release, cancel: none affects the new attempt."""
    zombie, heir = await _taken_over(world)
    for number, outcome in enumerate(OUTCOMES, start=1):
        before = await world.job("a")
        result = await world.finish(zombie, outcome)
        assert [refused.lease for refused in result.refused] == [zombie.lease]
        assert result.refused[0].reason is Refusal.STALE
        assert await world.job("a") == before
        assert await world.total("refused_writes") == number
    assert not (await world.finish(heir, Completed('"heir"'))).refused
    job = await world.job("a")
    assert (job.status, job.result) == (JobStatus.COMPLETE, '"heir"')


@fact
async def a_zombie_is_refused_if_the_new_attempt_uses_another_handle(world: World) -> None:
    """Even if a handle caches its claims; reports with a valid lease are accepted."""
    second = await world.open_second()
    for name in ("a", "b", "mine"):
        await world.add(name)
    zombie, other, mine = await world.claim(3, "zombie")
    world.pass_time(LEASE - 1)
    await world.extend([mine.lease])
    world.pass_time(2)
    await second.rescue(now=world.now)
    heirs = await world.claim(3, "heir", store=second)
    assert ids(heirs) == ["a", "b"]
    reports = [Finished(claim.lease, Completed()) for claim in (zombie, other, mine)]
    result = await world.tick(reports, worker="zombie")
    assert [refused.lease for refused in result.refused] == [zombie.lease, other.lease]
    assert await world.total("refused_writes") == 2
    for name in ("a", "b"):
        job = await world.job(name)
        assert (job.status, job.worker_id, job.token) == (JobStatus.PROCESSING, "heir", 2)
        assert len(await world.store.attempts(name)) == 2
    assert (await world.job("mine")).status is JobStatus.COMPLETE
    done = await world.tick([Finished(heir.lease, Completed()) for heir in heirs], store=second)
    assert done.refused == ()


@fact
async def a_zombies_progress_and_heartbeat_are_refused(world: World) -> None:
    zombie, heir = await _taken_over(world)
    assert await world.store.progress(heir.lease, 0.25, "mine", now=world.now)
    assert not await world.store.progress(zombie.lease, 0.75, "theirs", now=world.now)
    extended = await world.extend([zombie.lease], LEASE * 9)
    assert extended.lost == (zombie.lease,)
    job = await world.job("a")
    assert (job.progress, job.progress_note) == (0.25, "mine")
    assert job.lease_expires_at == heir.lease.expires_at
    assert await world.total("refused_writes") == 2


@fact
async def a_lost_attempt_is_refused_if_its_own_worker_claimed_the_job_again(world: World) -> None:
    """Only the token distinguishes the two attempts."""
    lost, current = await _taken_over(world, heir="zombie")
    for outcome in OUTCOMES:
        (refused,) = (await world.finish(lost, outcome)).refused
        assert (refused.lease, refused.reason) == (lost.lease, Refusal.STALE)
    assert not await world.store.progress(lost.lease, 0.75, now=world.now)
    assert (await world.extend([lost.lease], LEASE * 9)).lost == (lost.lease,)
    job = await world.job("a")
    assert (job.status, job.token, job.progress) == (JobStatus.PROCESSING, 2, None)
    assert job.lease_expires_at == current.lease.expires_at


@fact
async def a_lease_ended_by_its_own_worker_is_lost_but_not_refused(world: World) -> None:
    """A heartbeat or progress sent together with the attempt's report is harmless."""
    heartbeats = world.store.heartbeats()
    for number, outcome in enumerate((*OUTCOMES, Retry(5, BROKEN, counted=False))):
        claim = await world.start(f"job-{number}")
        await world.finish(claim, outcome)
        extended = await heartbeats.extend([claim.lease], LEASE, now=world.now)
        assert extended.lost == (claim.lease,)
        assert not await world.store.progress(claim.lease, 0.5, now=world.now)
        await world.store.cancel(f"job-{number}", now=world.now)
    assert await world.total("refused_writes") == 0


@fact
async def a_lease_that_was_taken_counts_as_refused_in_every_status(
    world: World,
) -> None:
    """Rescued and not claimed again, dead, cancelled or timed out: its worker is a zombie."""
    await world.add("queued")
    await world.add("dead", max_attempts=1)
    await world.add("cancelled")
    await world.add("late", deadline_at=world.now + 1)
    claims = await world.claim()
    await world.store.cancel("cancelled", now=world.now)
    world.pass_time(LEASE + 1)
    await world.store.expire_deadlines(now=world.now)
    await world.store.rescue(now=world.now)
    leases = [claim.lease for claim in claims]
    extended = await world.extend(leases)
    assert set(extended.lost) == set(leases)
    assert await world.total("refused_writes") == 4
    for lease in leases:
        assert not await world.store.progress(lease, 0.5, now=world.now)
    assert await world.total("refused_writes") == 8


@fact
async def of_two_leases_on_one_job_only_the_current_one_is_extended(world: World) -> None:
    """A worker may claim its own rescued job again and still have the old lease."""
    zombie, heir = await _taken_over(world)
    extended = await world.extend([zombie.lease, heir.lease])
    assert extended.lost == (zombie.lease,)


@fact
async def a_second_report_of_one_attempt_is_refused(world: World) -> None:
    """Also within one tick: the first one counts."""
    claim = await world.start("a")
    result = await world.tick(
        [Finished(claim.lease, Completed("1")), Finished(claim.lease, Failed(BROKEN))]
    )
    assert [refused.reason for refused in result.refused] == [Refusal.STALE]
    again = await world.finish(claim, Completed("2"))
    assert [refused.reason for refused in again.refused] == [Refusal.STALE]
    job = await world.job("a")
    assert (job.status, job.result) == (JobStatus.COMPLETE, "1")
    assert len(await world.store.attempts("a")) == 1


@fact
async def a_token_of_the_future_or_of_another_job_is_refused(world: World) -> None:
    claim = await world.start("a")
    for lease in (
        Lease("a", claim.lease.token + 1, "worker-1", 0.0),
        Lease("missing", claim.lease.token, "worker-1", 0.0),
    ):
        result = await world.tick([Finished(lease, Completed())])
        assert [refused.lease for refused in result.refused] == [lease]
    assert (await world.job("a")).status is JobStatus.PROCESSING


@fact
async def one_stale_report_does_not_refuse_the_others(world: World) -> None:
    for name in ("a", "b", "c"):
        await world.add(name)
    claims = await world.claim()
    stale = Lease("b", 99, "worker-1", 0.0)
    result = await world.tick(
        [
            Finished(claims[0].lease, Completed()),
            Finished(stale, Completed()),
            Finished(claims[2].lease, Failed(BROKEN)),
        ]
    )
    assert [refused.lease for refused in result.refused] == [stale]
    assert (await world.job("a")).status is JobStatus.COMPLETE
    assert (await world.job("b")).status is JobStatus.PROCESSING
    assert (await world.job("c")).status is JobStatus.FAILED


@fact
async def a_manual_retry_keeps_the_token(world: World) -> None:
    """The attempt count restarts, the token does not: a zombie is still refused."""
    zombie = await world.start("a", worker="zombie")
    await world.finish(zombie, Failed(BROKEN))
    await world.store.retry(["a"], now=world.now)
    heir = await world.claim_one("heir")
    assert (heir.attempt, heir.lease.token) == (1, 2)
    assert (await world.finish(zombie, Completed())).refused
    assert (await world.job("a")).status is JobStatus.PROCESSING


@fact
async def an_extended_lease_is_not_rescued(world: World) -> None:
    for name in ("a", "b"):
        await world.add(name)
    claims = await world.claim()
    world.pass_time(LEASE - 1)
    extended = await world.extend([claim.lease for claim in claims])
    assert extended.lost == ()
    assert extended.cancel_requested == ()
    world.pass_time(LEASE - 1)
    rescued = await world.store.rescue(now=world.now)
    assert rescued.requeued == ()
    assert (await world.job("b")).lease_expires_at == world.now + 1


@fact
async def an_expired_lease_that_was_not_taken_can_be_extended(world: World) -> None:
    """A worker that was only slow keeps its job, and may finish it."""
    claim = await world.start("a")
    world.pass_time(LEASE * 3)
    heartbeats = world.store.heartbeats()
    assert (await heartbeats.extend([claim.lease], LEASE, now=world.now)).lost == ()
    assert not (await world.finish(claim, Completed())).refused
    await heartbeats.close()


@fact
async def extending_nothing_does_nothing(world: World) -> None:
    extended = await world.extend([])
    assert (extended.lost, extended.cancel_requested) == ((), ())
