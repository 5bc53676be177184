"""Facts about limits of owners: they hold for the whole fleet, and delay no other owner."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

from holdfast.jobs.claim_sharing import TURN
from holdfast.jobs.dedup import DedupRule
from holdfast.jobs.exceptions import TooManyJobs
from holdfast.jobs.model import Claim, Completed, Failed, Finished, NewJob
from holdfast.jobs.operations_port import AuditEntry
from holdfast.jobs.owner_limits import OwnerLimits
from holdfast.jobs.owner_port import LimitedOwner
from holdfast.jobs.store_port import StoreError
from holdfast.resilience.policy import RateLimit
from holdfast.testing.conformance.world import BROKEN, World, fact, ids, refusal


async def _add(world: World, number: int, owner: str | None, **fields: Any) -> None:
    kind, name = fields.pop("kind", "work"), owner or "nobody"
    await world.store.enqueue(
        [NewJob(f"{name}-{kind}-{n:04d}", kind, owner=owner, **fields) for n in range(number)],
        now=world.now,
    )


def _owners(claims: tuple[Claim, ...]) -> Counter[str | None]:
    return Counter(claim.owner for claim in claims)


async def _counts(world: World, owner: str) -> tuple[int, int]:
    store = world.store
    return await store.running_jobs(owner), await store.unfinished_jobs(owner, at_most=100)


@fact
async def limits_of_an_owner_are_stored_replaced_and_cleared(world: World) -> None:
    store = world.store
    assert await store.owner_limits("ann") is None
    rate = RateLimit(per_second=5, per_day=1000, spread=True)
    limits = OwnerLimits(concurrency=2, rate=rate, waiting=100, storage_bytes=10**12)
    await store.set_owner_limits("ann", limits)
    await store.set_owner_limits("ann/of \u201cten\u201d", OwnerLimits())
    second = await world.open_second()
    assert await second.owner_limits("ann") == limits
    await store.set_owner_limits("ann", OwnerLimits(waiting=7))
    assert await second.owner_limits("ann") == OwnerLimits(waiting=7)
    found = await second.limited_owners()
    assert found == (
        LimitedOwner("ann", OwnerLimits(waiting=7)),
        LimitedOwner("ann/of \u201cten\u201d", OwnerLimits()),
    )
    assert await second.limited_owners(after="ann", limit=1) == found[1:]
    assert await store.clear_owner_limits("ann")
    assert not await store.clear_owner_limits("ann")
    assert await store.owner_limits("ann") is None


@fact
async def an_owner_runs_no_more_jobs_at_once_than_its_limit(world: World) -> None:
    """Over all workers, queues, kinds and downstreams; the next one starts when one ends."""
    await world.store.set_owner_limits("ann", OwnerLimits(concurrency=2))
    await _add(world, 3, "ann")
    await _add(world, 3, "ann", kind="other", queue="slow", downstream="host")
    queues = ("default", "slow")
    first = await world.claim(10, queues=queues)
    assert len(first) == 2
    second = await world.open_second()
    assert await world.claim(10, "worker-2", queues=queues, store=second) == ()
    result = await world.tick([Finished(first[0].lease, Completed())], 10, queues=queues)
    assert len(result.claims) == 1
    assert await world.claim(10, "worker-2", queues=queues, store=second) == ()
    await world.store.clear_owner_limits("ann")
    assert len(await world.claim(10, "worker-2", queues=queues, store=second)) == 3


@fact
async def an_owner_at_its_limit_delays_no_other_owner(world: World) -> None:
    """Neither in its lane, nor by a higher priority; and jobs without an owner have no limit."""
    await world.store.set_owner_limits("ann", OwnerLimits(concurrency=1))
    await _add(world, 300, "ann", priority=5)
    await _add(world, 20, "bob")
    await _add(world, 20, None)
    await _add(world, 2, "cid", kind="other", priority=-1)
    assert _owners(await world.claim(3))["ann"] == 1
    second = _owners(await world.claim(500))
    assert second["ann"] == 0
    assert second.total() == 40
    assert await world.claim(500) == ()


@fact
async def other_owners_take_turns_beside_one_at_its_limit(world: World) -> None:
    await world.store.set_owner_limits("bob", OwnerLimits(concurrency=3))
    for owner in ("ann", "bob", "cid"):
        await _add(world, 40, owner)
    taken = _owners(await world.claim(43))
    assert taken["bob"] == 3
    assert abs(taken["ann"] - taken["cid"]) <= TURN
    assert taken.total() == 43


@fact
async def the_default_holds_for_every_owner_without_limits_of_its_own(world: World) -> None:
    """Own limits replace it as a whole: empty ones set no limit."""
    world.owner_limits = OwnerLimits(concurrency=2, rate=RateLimit(per_day=1000))
    await world.store.set_owner_limits("bob", OwnerLimits(concurrency=4))
    await world.store.set_owner_limits("cid", OwnerLimits())
    for owner in ("ann", "bob", "cid", "dan", None):
        await _add(world, 10, owner)
    expected = {"ann": 2, "bob": 4, "cid": 10, "dan": 2, None: 10}
    assert _owners(await world.claim(100)) == expected
    assert await world.claim(100) == ()


@fact
async def a_rate_of_an_owner_holds_for_any_minute(world: World) -> None:
    """Over all workers, and the claim says when to look again."""
    await world.store.set_owner_limits("ann", OwnerLimits(rate=RateLimit(per_minute=3)))
    await _add(world, 9, "ann")
    await _add(world, 1, "bob")
    second = await world.open_second()
    starts: list[float] = []
    for step in range(50):
        store = second if step % 2 else world.store
        found = await world.claim(10, store=store)
        starts += [world.now] * _owners(found)["ann"]
        world.pass_time(3.0)
    assert len(starts) >= 6
    for index, start in enumerate(starts):
        assert sum(start <= other < start + 60 for other in starts[index:]) <= 3
    await _add(world, 9, "ann", kind="other")
    result = await world.tick([], 10)
    result = await world.tick([], 10)
    assert result.claims == ()
    assert result.wake_at is not None
    assert result.wake_at <= world.now + 1


@fact
async def an_owner_without_rate_delays_no_other_owner_of_its_lane(world: World) -> None:
    """Also while jobs wait in another lane."""
    await world.store.set_owner_limits("ann", OwnerLimits(rate=RateLimit(per_day=1)))
    await world.run("ann-first", owner="ann")
    await _add(world, 100, "cid", downstream="one")
    await _add(world, 30, "ann", downstream="two")
    await _add(world, 5, "bob", downstream="two")
    assert _owners(await world.claim(4)) == {"bob": 2, "cid": 2}
    assert _owners(await world.claim(4)) == {"bob": 2, "cid": 2}


@fact
async def an_owner_without_rate_wakes_nobody_while_none_of_its_jobs_wait(world: World) -> None:
    await world.store.set_owner_limits("ann", OwnerLimits(rate=RateLimit(per_minute=1)))
    await world.start("ann-first", owner="ann")
    await _add(world, 1, "bob")
    result = await world.tick([], 5)
    assert _owners(result.claims) == {"bob": 1}
    assert result.wake_at is None
    await _add(world, 1, "ann")
    assert (await world.tick([], 5)).wake_at is not None


@fact
async def every_attempt_counts_for_the_rate_of_an_owner(world: World) -> None:
    await world.store.set_owner_limits("ann", OwnerLimits(rate=RateLimit(per_minute=2)))
    await _add(world, 4, "ann")
    for _ in range(2):
        (claim,) = await world.claim(1)
        await world.finish(claim, Completed())
    assert await world.claim(1) == ()
    world.pass_time(62.0)
    assert len(await world.claim(10)) == 2


@fact
async def the_default_does_not_hold_for_deliveries_of_webhooks(world: World) -> None:
    world.owner_limits = OwnerLimits(concurrency=1, rate=RateLimit(per_day=1))
    await _add(world, 3, "ann")
    await _add(world, 3, "webhook:1", kind="other")
    assert _owners(await world.claim(9)) == {"ann": 1, "webhook:1": 3}


@fact
async def cleared_limits_leave_what_rates_have_counted(world: World) -> None:
    world.owner_limits = OwnerLimits(rate=RateLimit(per_day=2))
    await _add(world, 9, "ann")
    assert len(await world.claim(9)) == 2
    assert not await world.store.clear_owner_limits("ann")
    assert await world.claim(9) == ()
    await world.store.forget_owner_starts("ann")
    assert len(await world.claim(9)) == 2


@fact
async def an_owner_keeps_its_limit_where_places_of_a_downstream_are_shared(world: World) -> None:
    await world.declare(concurrency=6, spare=1)
    await world.store.set_owner_limits("ann", OwnerLimits(concurrency=1))
    await world.store.set_owner_limits("bob", OwnerLimits(rate=RateLimit(per_day=2)))
    for owner in ("ann", "bob", "cid"):
        await _add(world, 9, owner, downstream="gateway")
    assert _owners(await world.claim(9)) == {"ann": 1, "bob": 2, "cid": 3}


@fact
async def an_owner_keeps_its_limit_within_that_of_a_kind(world: World) -> None:
    await world.store.set_owner_limits("ann", OwnerLimits(concurrency=2))
    await _add(world, 9, "ann", priority=1)
    await _add(world, 9, "bob")
    first = await world.claim(9, kinds={"work": 3})
    assert _owners(first) == {"ann": 2, "bob": 1}
    await world.finish(first[0], Failed(BROKEN))
    assert len(await world.claim(9, kinds={"work": 3})) == 1


@fact
async def a_job_past_its_deadline_takes_no_room_of_its_owner(world: World) -> None:
    await world.store.set_owner_limits("ann", OwnerLimits(concurrency=1))
    await world.add("late", owner="ann", deadline_at=world.now + 5)
    await world.add("good", owner="ann")
    world.pass_time(10)
    result = await world.tick([], 5)
    assert ids(result.claims) == ["good"]
    assert [job.job_id for job in result.timed_out] == ["late"]


@fact
async def jobs_of_an_owner_are_counted_until_they_are_finished(world: World) -> None:
    await _add(world, 5, "ann")
    await _add(world, 3, "bob")
    await world.add("later", owner="ann", run_at=world.now + 60)
    assert await _counts(world, "ann") == (0, 6)
    (claim,) = await world.claim(1)
    assert await _counts(world, "ann") == (1, 6)
    assert await world.store.unfinished_jobs("ann", at_most=4) == 4
    await world.finish(claim, Completed())
    assert await _counts(world, "ann") == (0, 5)
    assert await _counts(world, "nobody") == (0, 0)


@fact
async def enqueueing_at_the_same_moment_creates_no_more_than_an_owner_may_have(
    world: World,
) -> None:
    async def enqueue(owner: str, number: int) -> bool:
        job = NewJob(f"{owner}-{number}", "work", owner=owner)
        try:
            await world.store.enqueue([job], most={"ann": 4}, now=world.now)
        except TooManyJobs:
            return False
        return True

    every = [("ann", number) for number in range(12)] + [("bob", number) for number in range(6)]
    created = await asyncio.gather(*(enqueue(*each) for each in every))
    assert sum(created[:12]) == 4
    assert all(created[12:])
    assert await _counts(world, "ann") == (0, 4)
    assert await _counts(world, "bob") == (0, 6)


@fact
async def jobs_beyond_what_an_owner_may_have_are_refused_all_or_none_but_repeats_are_not(
    world: World,
) -> None:
    def job(name: str, **fields: Any) -> NewJob:
        return NewJob(name, "work", owner="ann", **fields)

    async def enqueue(*jobs: NewJob) -> list[tuple[str, bool]]:
        answers = await world.store.enqueue(jobs, most={"ann": 2}, now=world.now)
        return [(each.id, each.created) for each in answers]

    assert await enqueue(job("a", dedup_key="k")) == [("a", True)]
    with refusal("two more", "'ann' may have 2", kind=TooManyJobs):
        await enqueue(job("b"), job("c"))
    assert await world.store.get("b") is None
    assert await enqueue(job("d", dedup_key="k"), job("b")) == [("a", False), ("b", True)]
    assert await enqueue(job("b"), job("e", dedup_key="k")) == [("b", False), ("a", False)]
    with refusal("one more", kind=TooManyJobs):
        await enqueue(job("b"), job("c"))
    await world.store.set_owner_limits("ann", OwnerLimits(waiting=1))  # fewer than it has
    assert await enqueue(job("b")) == [("b", False)]


@fact
async def repeats_of_stored_jobs_are_known(world: World) -> None:
    """By the rules that enqueueing follows: what it would create is no repeat."""
    await world.run("done", Completed(), dedup_key="done")
    await world.run("old", Completed(), dedup_key="old")
    await world.run("failed", Failed(BROKEN), dedup_key="failed")
    world.pass_time(10)
    await world.add("waiting", dedup_key="waiting")
    unfinished, recent = DedupRule(unfinished=True), DedupRule(seconds=10.0)
    cases = [
        (NewJob("done", "work"), True),
        (NewJob("new", "work"), False),
        (NewJob("n1", "work", dedup_key="done"), True),
        (NewJob("n2", "other", dedup_key="done"), False),
        (NewJob("n3", "work", dedup_key="failed"), False),
        (NewJob("n4", "work", dedup_key="done", dedup_rule=unfinished), False),
        (NewJob("n5", "work", dedup_key="waiting", dedup_rule=unfinished), True),
        (NewJob("n6", "work", dedup_key="old", dedup_rule=recent), False),
        (NewJob("n7", "work", dedup_key="waiting", dedup_rule=recent), True),
    ]
    for job, repeated in cases:
        assert await world.store.repeated_jobs([job], now=world.now) == (repeated,), job
    everything, expected = zip(*cases, strict=True)
    assert await world.store.repeated_jobs(everything, now=world.now) == expected
    assert await world.store.repeated_jobs([], now=world.now) == ()
    for job, repeated in cases:
        (answer,) = await world.store.enqueue([job], now=world.now)
        assert answer.created is not repeated, job


@fact
async def a_change_of_limits_and_its_entry_in_the_audit_log_are_stored_together(
    world: World,
) -> None:
    """An entry that the log cannot take leaves the limits as they were."""
    kept, store = OwnerLimits(waiting=1), world.store
    entry = AuditEntry(world.now, "ann", "full", "owner-limits.set", "bob", {"waiting": 1})
    await store.set_owner_limits("bob", kept, entry=entry)
    assert await store.owner_limits("bob") == kept
    refused = replace(entry, who=None)  # type: ignore[arg-type]  # the column is NOT NULL
    for change in (
        store.set_owner_limits("bob", OwnerLimits(waiting=2), entry=refused),
        store.clear_owner_limits("bob", entry=refused),
    ):
        with refusal("an entry without a person", kind=StoreError):
            await change
    assert await store.owner_limits("bob") == kept
    cleared = replace(entry, action="owner-limits.delete", detail={})
    assert await store.clear_owner_limits("bob", entry=cleared)
    assert (await store.audit()).entries == (cleared, entry)
