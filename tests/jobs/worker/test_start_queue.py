"""Jobs that have lost a worker: which start beside them, and when.

The worker of these tests has run short jobs, so it claims ahead. Jobs named `lost` are suspects.
"""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

from msgspec import structs
from tests.support.waiting import until
from tests.support.workers import QUICK, rig

from holdfast.jobs.declare.app import App
from holdfast.jobs.model import AttemptOutcome, JobStatus, Released
from holdfast.jobs.store_port import StoreUnavailable
from holdfast.jobs.worker import start_queue
from holdfast.store.sqlite.store import SQLiteStore

LEARNING = 500
"""Jobs after which a worker claims as far ahead as it may."""
SLOTS = 4
AT_ONCE = 40
"""Jobs that a worker with these slots claims at once then."""
ALONE = replace(QUICK, concurrency=SLOTS, maintenance=None)


class Suspicious:
    """A worker that claims ahead, and handlers that note which leases it has when they start."""

    def __init__(self):
        self.app = App("ahead")
        self.it = None
        self.started = []
        self.leases = {}
        self.may_end = asyncio.Event()
        self.work = self.app.job()(self._work)

    async def _work(self, ctx):
        if ctx.job_id.startswith("learning"):
            return
        self.started.append(ctx.job_id)
        if ctx.job_id == "lost":
            leases = await type(self.it.store).leases(self.it.store, self.it.worker.worker_id)
            self.leases[ctx.job_id] = {lease.job_id for lease in leases}
        elif "running" in ctx.job_id:
            await self.may_end.wait()

    @asynccontextmanager
    async def running(self, folder, **changes):
        """Yield a rig whose worker has learned that jobs are short and waits for more."""
        async with rig(folder, self.app, ALONE, **changes) as self.it:
            await self.it.enqueue(self.work, *(f"learning{number}" for number in range(LEARNING)))
            async with self.it.running():
                await until(lambda: self.complete(LEARNING))
                self.claims = noted_claims(self.it)
                yield self.it

    async def enqueue(self, *names):
        await self.it.enqueue(self.work, *names)

    async def complete(self, count):
        return sum(lane.complete for lane in (await self.it.store.stats()).lanes) == count

    async def releases(self, names):
        """Return how often each job was released."""
        attempts = [await self.it.store.attempts(name) for name in names]
        outcomes = [[attempt.outcome for attempt in each] for each in attempts]
        return [each.count(AttemptOutcome.RELEASED) for each in outcomes]


def noted_claims(it):
    """Mark the claims of suspects; return a list of each claim's limit and what it brought."""
    claims, tick = [], it.store.tick

    async def marking(worker_id, finished=(), claim=None, **rest):
        result = await tick(worker_id, finished, claim, **rest)
        if claim is not None:
            claims.append((claim.limit, [each.job_id for each in result.claims]))
        return replace(result, claims=tuple(map(marked, result.claims)))

    it.store.tick = marking
    return claims


def marked(claim):
    return structs.replace(claim, lost_worker=claim.job_id.startswith("lost"))


def names(prefix, count):
    return [f"{prefix}{number}" for number in range(count)]


def test_a_suspect_starts_when_the_jobs_claimed_with_it_have_ended_and_none_is_released(tmp_path):
    async def scenario():
        suspicious = Suspicious()
        async with suspicious.running(tmp_path):
            others = names("other", AT_ONCE - 1)
            await suspicious.enqueue("lost", *others)
            await until(lambda: suspicious.complete(LEARNING + AT_ONCE))
            assert (AT_ONCE, ["lost", *others]) in suspicious.claims
            assert suspicious.started == [*others, "lost"]
            assert suspicious.leases["lost"] == {"lost"}
            assert not any(await suspicious.releases([*others, "lost"]))

    asyncio.run(scenario())


def test_suspects_that_come_together_start_one_by_one_and_are_released_once(tmp_path):
    """The claims after the first bring one each."""

    async def scenario():
        suspicious = Suspicious()
        async with suspicious.running(tmp_path):
            lost = names("lost", AT_ONCE)
            await suspicious.enqueue(*lost)
            await until(lambda: suspicious.complete(LEARNING + AT_ONCE))
            limits = [limit for limit, found in suspicious.claims if found]
            assert limits[0] == AT_ONCE
            assert set(limits[1:]) == {1}
            assert suspicious.started == lost
            assert await suspicious.releases(lost) == [0] + [1] * (AT_ONCE - 1)

    asyncio.run(scenario())


def test_a_suspect_does_not_start_while_lost_answers_may_have_claimed_jobs(tmp_path):
    async def scenario():
        suspicious = Suspicious()
        async with suspicious.running(tmp_path) as it:
            tick, leases, failures = it.store.tick, it.store.leases, []

            async def losing(*args, **rest):
                """Lose the answer to a claim, but for the suspect."""
                result = await tick(*args, **rest)
                if not failures and len(result.claims) > 1:
                    return replace(result, claims=result.claims[:1], claim_lost=True)
                return result

            async def failing(worker_id):
                failures.append(worker_id)
                if len(failures) < 5:
                    raise StoreUnavailable("away")
                return await leases(worker_id)

            it.store.tick, it.store.leases = losing, failing
            await suspicious.enqueue("lost", *names("other", AT_ONCE - 1))
            await until(lambda: suspicious.complete(LEARNING + AT_ONCE))
            assert len(failures) >= 5
            assert len(suspicious.leases["lost"]) <= SLOTS

    asyncio.run(scenario())


def test_a_suspect_does_not_start_while_a_claim_is_not_answered(tmp_path):
    """It is released like a job that finds no free slot."""

    async def scenario():
        suspicious, batch = Suspicious(), SLOTS
        running, lost, others = (names(each, batch) for each in ("running", "lost", "other"))
        async with suspicious.running(tmp_path, concurrency=3 * batch, batch=batch) as it:
            it.store.ticks_apart = True
            tick, sent, answered = it.store.tick, [], asyncio.Event()

            async def late(*args, **rest):
                """Answer the claim of the suspects when the one after it was sent."""
                result = await tick(*args, **rest)
                brought = {claim.job_id for claim in result.claims}
                sent.extend(brought)
                if not brought.isdisjoint(lost):
                    await suspicious.enqueue(*others)
                    suspicious.may_end.set()  # which fills a second tick
                    await until(lambda: others[0] in sent)
                elif not brought.isdisjoint(others):
                    await answered.wait()
                return result

            await suspicious.enqueue(*running)
            await until(lambda: set(suspicious.started) == set(running))
            it.store.tick = late
            await suspicious.enqueue(*lost)
            await until(lambda: released(suspicious, lost))
            assert set(suspicious.started) == set(running)
            answered.set()
            await until(lambda: suspicious.complete(LEARNING + 3 * batch))

    asyncio.run(scenario())


def test_a_worker_that_stops_releases_a_suspect_that_waits(tmp_path):
    async def scenario():
        suspicious = Suspicious()
        async with suspicious.running(tmp_path) as it:
            tick, stored = it.store.tick, asyncio.Event()

            async def late(worker_id, finished=(), claim=None, **rest):
                if any(isinstance(end.outcome, Released) for end in finished):
                    await stored.wait()
                return await tick(worker_id, finished, claim, **rest)

            it.store.tick = late
            await suspicious.enqueue("lost", "lost1")
            await until(lambda: any("lost" in found for _, found in suspicious.claims))
            it.worker.stop()
            stored.set()
        assert suspicious.started == []
        async with SQLiteStore(tmp_path / "jobs.db") as store:
            for name in ("lost", "lost1"):
                job = await store.get(name)
                assert (job.status, job.attempt_count) == (JobStatus.QUEUED, 0)

    asyncio.run(scenario())


def test_a_worker_runs_suspects_before_it_is_idle(tmp_path):
    async def scenario():
        suspicious, lost = Suspicious(), names("lost", 3 * SLOTS)
        async with rig(tmp_path, suspicious.app, ALONE, poll_interval=30) as suspicious.it:
            noted_claims(suspicious.it)
            await suspicious.enqueue(*lost)
            await suspicious.it.run()
            assert await suspicious.complete(len(lost))

    asyncio.run(scenario())


def test_suspects_are_seldom_released_where_lanes_take_turns(tmp_path):
    """A claim that brings none is followed by one of twice its size, not by a full one."""

    async def scenario():
        suspicious, lost, others = Suspicious(), names("lost", AT_ONCE), names("other", 1500)
        other = suspicious.app.job(queue="other", name="other")(suspicious._work)
        async with suspicious.running(tmp_path) as it:
            await it.enqueue(other, *others)
            await suspicious.enqueue(*lost)
            await until(lambda: suspicious.complete(LEARNING + len(lost) + len(others)))
            assert sum(await suspicious.releases(lost)) < 3 * len(lost)

    asyncio.run(scenario())


def test_jobs_are_claimed_ahead_beside_a_suspect_that_runs_for_long(tmp_path, monkeypatch):
    monkeypatch.setattr(start_queue, "_WATCHED", 0.2)

    async def scenario():
        suspicious = Suspicious()
        async with suspicious.running(tmp_path):
            await suspicious.enqueue("lost and running")
            await until(lambda: suspicious.started)
            others = names("other", 1500)
            await suspicious.enqueue(*others)
            await until(lambda: suspicious.complete(LEARNING + len(others)))
            assert max(limit for limit, _ in suspicious.claims[1:]) > SLOTS
            suspicious.may_end.set()

    asyncio.run(scenario())


def test_other_jobs_start_while_a_suspect_runs(tmp_path):
    """It is given a moment first, in which nothing is claimed."""

    async def scenario():
        suspicious = Suspicious()
        async with suspicious.running(tmp_path):
            others = names("other", AT_ONCE)
            await suspicious.enqueue("lost and running", *names("lost", 1))
            await until(lambda: len(suspicious.started) == 2)
            await suspicious.enqueue(*others)
            await until(lambda: suspicious.complete(LEARNING + 1 + AT_ONCE))
            assert max(limit for limit, _ in suspicious.claims[1:]) < SLOTS
            suspicious.may_end.set()
            await until(lambda: suspicious.complete(LEARNING + 2 + AT_ONCE))

    asyncio.run(scenario())


async def released(suspicious, jobs):
    return all(await suspicious.releases(jobs))
