"""Facts about dedup rules: only unfinished twins count, or only young ones."""

import asyncio

from holdfast.jobs.dedup import DedupRule
from holdfast.jobs.model import Completed, Failed, NewJob
from holdfast.jobs.store_port import Change
from holdfast.testing.conformance.world import BROKEN, World, fact, ids

UNFINISHED = DedupRule(unfinished=True)
MINUTE = DedupRule(seconds=60.0)


@fact
async def an_unfinished_twin_counts_by_every_rule(world: World) -> None:
    """Waiting or running; the second of one call as well."""
    for name, rule in {"u": UNFINISHED, "m": MINUTE}.items():
        await world.add(f"{name}-1", dedup_key=name, dedup_rule=rule)
        assert (await world.add(f"{name}-2", dedup_key=name, dedup_rule=rule)).id == f"{name}-1"
    assert len(await world.claim()) == 2
    assert (await world.add("u-3", dedup_key="u", dedup_rule=UNFINISHED)).id == "u-1"
    jobs = [NewJob(f"x-{n}", "work", dedup_key="x", dedup_rule=UNFINISHED) for n in range(3)]
    answers = await world.store.enqueue(jobs, now=world.now)
    assert [(answer.id, answer.created) for answer in answers] == [
        ("x-0", True), ("x-0", False), ("x-0", False),
    ]  # fmt: skip


@fact
async def a_complete_twin_does_not_count_where_only_unfinished_ones_do(world: World) -> None:
    """The usual rule then finds the newest job of the key."""
    await world.run("a", dedup_key="k", dedup_rule=UNFINISHED)
    assert (await world.add("b", dedup_key="k", dedup_rule=UNFINISHED)).created
    assert (await world.add("c", dedup_key="k", dedup_rule=UNFINISHED)).id == "b"
    await world.finish(await world.claim_one(), Completed())
    assert (await world.add("d", dedup_key="k")).id == "b"
    await world.run("usual", dedup_key="j")
    assert (await world.add("again", dedup_key="j", dedup_rule=UNFINISHED)).created


@fact
async def a_twin_counts_only_for_its_seconds(world: World) -> None:
    """Complete or not; a job that outlives them runs on."""
    await world.run("a", dedup_key="k", dedup_rule=MINUTE)
    world.pass_time(59)
    assert (await world.add("b", dedup_key="k", dedup_rule=MINUTE)).id == "a"
    world.pass_time(2)
    assert (await world.add("c", dedup_key="k", dedup_rule=MINUTE)).created
    running = await world.claim_one()
    world.pass_time(30)
    assert (await world.add("d", dedup_key="k", dedup_rule=MINUTE)).id == "c"
    world.pass_time(31)
    assert (await world.add("e", dedup_key="k", dedup_rule=MINUTE)).created
    assert not (await world.finish(running, Completed())).refused


@fact
async def both_rules_may_hold_at_once(world: World) -> None:
    """A twin counts that is unfinished and young."""
    rule = DedupRule(unfinished=True, seconds=60.0)
    await world.add("a", dedup_key="k", dedup_rule=rule)
    assert (await world.add("b", dedup_key="k", dedup_rule=rule)).id == "a"
    world.pass_time(61)
    assert (await world.add("c", dedup_key="k", dedup_rule=rule)).created
    assert ids(await world.claim()) == ["a", "c"]
    assert (await world.add("d", dedup_key="k", dedup_rule=rule)).id == "c"


@fact
async def a_rule_is_of_one_kind_and_key(world: World) -> None:
    """Twins of the other jobs of the call count as usual."""
    await world.run("a", dedup_key="k")
    await world.run("b", kind="other", dedup_key="k")
    jobs = [
        NewJob("c", "work", dedup_key="k"),
        NewJob("d", "other", dedup_key="k", dedup_rule=UNFINISHED),
        NewJob("e", "work"),
    ]
    answers = await world.store.enqueue(jobs, now=world.now)
    assert [answer.id for answer in answers] == ["a", "d", "e"]


@fact
async def a_manual_retry_looks_for_twins_by_the_jobs_rule(world: World) -> None:
    """An unfinished twin always stands in its way, a complete one by the usual rule only."""
    await world.run("usual", Failed(BROKEN), dedup_key="k")
    await world.run("done", dedup_key="k")
    assert await world.store.retry(["usual"], now=world.now) == (Change.TWIN,)

    await world.run("first", Failed(BROKEN), dedup_key="j", dedup_rule=UNFINISHED)
    await world.add("second", dedup_key="j", dedup_rule=UNFINISHED)
    assert await world.store.retry(["first"], now=world.now) == (Change.TWIN,)
    await world.finish(await world.claim_one(), Completed())
    assert await world.store.retry(["first"], now=world.now) == (Change.DONE,)
    assert (await world.add("third", dedup_key="j", dedup_rule=UNFINISHED)).id == "first"


@fact
async def a_manual_retry_looks_for_young_twins_only(world: World) -> None:
    """Where the rule says so."""
    await world.run("first", Failed(BROKEN), dedup_key="k", dedup_rule=MINUTE)
    await world.run("second", dedup_key="k", dedup_rule=MINUTE)
    assert await world.store.retry(["first"], now=world.now) == (Change.TWIN,)
    world.pass_time(61)
    assert await world.store.retry(["first"], now=world.now) == (Change.DONE,)


@fact
async def enqueueing_the_same_id_again_by_a_rule_returns_it(world: World) -> None:
    """A caller whose answer was lost repeats the call; the job keeps its key."""
    await world.run("a", dedup_key="k", dedup_rule=UNFINISHED)
    again = await world.add("a", dedup_key="k", dedup_rule=UNFINISHED)
    assert (again.id, again.created) == ("a", False)
    assert (await world.job("a")).dedup_key == "k"


@fact
async def of_many_callers_at_once_one_takes_the_key_over(world: World) -> None:
    """From a complete job; the others get the id of the new one."""
    keys = [f"key-{number}" for number in range(5)]
    for key in keys:
        await world.run(f"old-{key}", dedup_key=key, dedup_rule=UNFINISHED)
    stores = [world.store, await world.open_second()]

    async def call(caller: int) -> list[tuple[str, bool]]:
        some = keys if caller % 2 else keys[::-1]
        jobs = [
            NewJob(f"{caller}-{key}", "work", dedup_key=key, dedup_rule=UNFINISHED) for key in some
        ]
        answers = await stores[caller % 2].enqueue(jobs, now=world.now)
        return [(answer.id, answer.created) for answer in answers]

    answers = await asyncio.gather(*(call(caller) for caller in range(12)))
    flat = [answer for call_answers in answers for answer in call_answers]
    assert sum(created for _, created in flat) == len(keys)
    assert len({job_id for job_id, _ in flat}) == len(keys)
    assert len(await world.claim(100)) == len(keys)
