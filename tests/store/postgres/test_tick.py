"""A tick returns its result even if something after it fails."""

import asyncio
from dataclasses import replace

import pytest
from tests.store.postgres.conftest import ANY, BROKEN, jobs
from tests.support.waiting import SOON

from holdfast.jobs.downstreams.record import CallReport, DownstreamSettings, Verdict
from holdfast.jobs.model import Completed, Finished, JobStatus, NewJob, Retry
from holdfast.jobs.store_port import ClaimRequest, StoreError, StoreUnavailable, StoreUnusable
from holdfast.resilience.policy import BreakerPolicy
from holdfast.store.postgres.connection import check_server
from holdfast.store.postgres.downstream_records import KnownDownstreams


def broken(database, method, query=None, error=StoreUnavailable):
    """Make one method of `database` fail, for one query or for all."""
    original = getattr(database, method)

    async def fail(*arguments, **parameters):
        if query is None or arguments[0] == query:
            raise error("gone")
        return await original(*arguments, **parameters)

    return fail


def test_counters_that_cannot_be_folded_cost_no_claim(play, monkeypatch):
    monkeypatch.setattr("holdfast.store.postgres.counters._FOLD_EVERY", 1)

    async def scenario(store):
        monkeypatch.setattr(
            store._database, "write", broken(store._database, "write", "count_fold")
        )
        await store.enqueue(jobs(3))
        assert len((await store.tick("w", claim=ANY)).claims) == 3
        await store.rescue()
        assert (await store.stats()).lanes[0].processing == 3

    play(scenario)


def test_an_outage_after_the_reports_are_committed_still_answers_them(play, monkeypatch):
    async def scenario(store):
        await store.enqueue(jobs(1))
        claims = (await store.tick("w", claim=ANY)).claims
        await store.declare_downstreams([DownstreamSettings("gateway", concurrency=1)])
        await store.enqueue(jobs(2, prefix="next", downstream="gateway"))
        monkeypatch.setattr(store._database, "transaction", broken(store._database, "transaction"))
        result = await store.tick("w", [Finished(claims[0].lease, Completed())], ANY)
        assert (result.claims, result.refused) == ((), ())
        assert result.wake_at == result.now
        assert (await store.get("job-00000")).status is JobStatus.COMPLETE
        monkeypatch.undo()
        assert len((await store.tick("w", claim=ANY)).claims) == 1

    play(scenario)


@pytest.mark.parametrize("error", [StoreUnavailable, StoreError])
def test_retries_count_as_suspects_if_those_that_lost_a_worker_cannot_be_read(
    play, monkeypatch, caplog, error
):
    """The tick is committed by then: its reports and its claims are answered."""

    async def scenario(store):
        await store.enqueue(jobs(3))
        claims = (await store.tick("w", claim=ANY)).claims
        await store.tick("w", [Finished(claim.lease, Retry(0.0, BROKEN)) for claim in claims[1:]])
        await store.enqueue(jobs(1, prefix="next"))
        fails = broken(store._database, "rows", "claim_lost_workers", error)
        monkeypatch.setattr(store._database, "rows", fails)
        request = replace(ANY, with_lost_workers=True)
        result = await store.tick("w", [Finished(claims[0].lease, Completed())], request)
        assert (result.refused, result.claim_lost) == ((), False)
        assert {claim.job_id: claim.lost_worker for claim in result.claims} == {
            "job-00001": True,
            "job-00002": True,
            "next-00000": False,
        }
        assert (await store.get("job-00000")).status is JobStatus.COMPLETE
        finished = [Finished(claim.lease, Completed()) for claim in result.claims]
        assert (await store.tick("w", finished)).refused == ()
        assert "gone" in caplog.text

    play(scenario)


def test_a_report_that_changes_nothing_takes_one_round_trip(play, monkeypatch):
    async def scenario(store):
        await store.declare_downstreams([DownstreamSettings("gateway", breaker=BreakerPolicy())])
        await store.enqueue(jobs(30, downstream="gateway"))
        asked = []
        rows = store._database.rows

        async def count(query, **parameters):
            asked.append(query)
            return await rows(query, **parameters)

        async def tick(finished):
            result = await store.tick("w", finished, ANY)
            reports = [
                CallReport("gateway", claim.permit, Verdict.SUCCESS) for claim in result.claims
            ]
            return [
                Finished(claim.lease, Completed(), report=report)
                for claim, report in zip(result.claims, reports, strict=True)
            ]

        finished = await tick(await tick([]))  # by now the record is known
        monkeypatch.setattr(store._database, "rows", count)
        monkeypatch.setattr(store._database, "transaction", broken(store._database, "transaction"))
        assert len(await tick(finished)) == 10
        assert [query for query in asked if query != "notify"] == ["tick"]

    play(scenario)


def test_more_reports_than_a_page_of_history_holds_are_one_tick(play, monkeypatch):
    monkeypatch.setattr("holdfast.store.postgres.tick.PAGE", 3)

    async def scenario(store):
        await store.enqueue(jobs(8))
        claims = (await store.tick("w", claim=ANY)).claims
        finished = [Finished(claim.lease, Completed(f"{n}")) for n, claim in enumerate(claims)]
        await store.tick("w", finished[4:5])
        result = await store.tick("w", finished, ANY)
        assert [refused.lease for refused in result.refused] == [claims[4].lease]
        found = [await store.get(claim.job_id) for claim in claims]
        assert [job.result for job in found] == [f"{n}" for n in range(8)]
        assert (await store.stats()).lanes[0].complete == 8

    play(scenario)


def test_reports_of_several_workers_keep_their_names(play):
    async def scenario(store):
        await store.enqueue(jobs(4))
        claims = []
        for worker in ("one", "two"):
            request = ANY.__class__(2, ANY.queues, ANY.kinds)
            claims += (await store.tick(worker, claim=request)).claims
        finished = [
            Finished(claim.lease, Completed(), meta=f'{{"n":{n}}}' if n else None)
            for n, claim in enumerate(claims)
        ]
        assert (await store.tick("one", finished)).refused == ()
        attempts = [(await store.attempts(claim.job_id))[0] for claim in claims]
        assert [attempt.worker_id for attempt in attempts] == ["one", "one", "two", "two"]
        assert [attempt.meta for attempt in attempts] == [None, '{"n":1}', '{"n":2}', '{"n":3}']

    play(scenario)


def test_a_server_that_is_too_old_is_refused():
    check_server((14, 0))
    with pytest.raises(StoreUnusable, match="PostgreSQL 13; 14 or newer is needed"):
        check_server((13, 9))


def test_records_that_another_tick_forgets_meanwhile_are_none_that_are_known():
    class Slow:
        async def rows(self, *names, **parameters):
            known.forget(["b"])
            return []

    async def scenario():
        assert await known.quiet_versions({"b": []}) == {"b": None}
        assert await known.quiet_versions({"a": [], "b": []}) == {"a": None, "b": None}

    known = KnownDownstreams(Slow())
    asyncio.run(scenario())


def test_of_many_records_only_some_are_remembered(monkeypatch):
    monkeypatch.setattr("holdfast.store.postgres.downstream_records._MOST_KNOWN", 2)
    asked = []

    class Asked:
        async def rows(self, _query, names):
            asked.append(names)
            return []

    async def scenario():
        for names in (["a", "b"], ["a"], ["c"], ["a"]):
            assert await known.quiet_versions(dict.fromkeys(names, ())) == dict.fromkeys(names)

    known = KnownDownstreams(Asked())
    asyncio.run(scenario())
    assert asked == [["a", "b"], ["c"], ["a"]]


def test_jobs_of_a_completion_need_no_second_connection(play, monkeypatch):
    """A new lane and numbers for their order are read before the tick takes its connection."""
    monkeypatch.setattr("holdfast.store.postgres.enqueue.PAGE", 3)

    async def scenario(store):
        await store.enqueue(jobs(3))
        first, second, refused = (await store.tick("w", claim=ANY)).claims
        await store.tick("w", [Finished(refused.lease, Completed())])
        new = [NewJob(f"new-{n}", "new lane") for n in (5, 3, 4, 2, 1, 0)]
        finished = [
            Finished(refused.lease, Completed(), jobs=(NewJob("never", "work"),)),
            Finished(first.lease, Completed(), jobs=tuple(new[:4])),
            Finished(second.lease, Completed(), jobs=tuple(new[4:])),
        ]
        async with asyncio.timeout(SOON):
            result = await store.tick("w", finished)
        assert [each.lease for each in result.refused] == [refused.lease]
        assert await store.get("never") is None
        claim = ClaimRequest(10, ("default",), {"new lane": None})
        claims = (await store.tick("w", claim=claim)).claims
        assert [claim.job_id for claim in claims] == [job.id for job in new]

    play(scenario, connections=1)
