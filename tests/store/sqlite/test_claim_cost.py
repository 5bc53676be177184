"""A claim costs what it takes: not more with many owners, jobs, or lanes, and it always ends."""

import asyncio

import apsw
import pytest

from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import ClaimRequest
from holdfast.store.sqlite.claim import ClaimBatch
from holdfast.store.sqlite.connection import connect, disconnect
from holdfast.store.sqlite.store import SQLiteStore
from holdfast.store.sqlite.transaction import Transaction

NOW = 1_800_000_000.0
MOST_STEPS = 2_000_000
"""Steps after which a claim is interrupted: it would not end."""


class Claims:
    """Claims on a file, in a transaction that is never committed; `steps` counts SQLite's work."""

    def __init__(self, path):
        self._connection = connect(path, busy_timeout=10.0)
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.set_progress_handler(self._step, 1)
        self._turns = {}
        self.steps = 0

    def _step(self):
        self.steps += 1
        return self.steps > MOST_STEPS

    def claim(self, limit, kinds):
        """Return the ids of the jobs that one claim takes."""
        request = ClaimRequest(limit, ("default",), dict.fromkeys(kinds), 60.0)
        tx = Transaction(self._connection, NOW, 0.0)
        claims = ClaimBatch(tx, request, "w", self._turns).run()
        tx.flush()
        return [claim.job_id for claim in claims]

    def close(self):
        self._connection.set_progress_handler(None)
        self._connection.execute("ROLLBACK")
        disconnect(self._connection)


@pytest.fixture
def claims_of(tmp_path):
    """Return a function that makes a store with the given jobs and yields claims on it."""
    opened = []

    def make(jobs):
        path = tmp_path / f"jobs-{len(opened)}.db"

        async def fill():
            async with SQLiteStore(path) as store:
                await store.enqueue(jobs, now=NOW - 1)

        asyncio.run(fill())
        opened.append(Claims(path))
        return opened[-1]

    yield make
    for claims in opened:
        claims.close()


def steps_of(claims, kinds=("work",), limit=100):
    """Return the steps of a claim of `limit` jobs, the second one."""
    claims.claim(limit, kinds)
    begin = claims.steps
    assert len(claims.claim(limit, kinds)) == limit
    return claims.steps - begin


def owned(owners, each, kinds=("work",)):
    """Return `each` jobs of every one of so many owners, of the `kinds` in turn."""
    return [
        NewJob(f"{owner}-{n}", kinds[n % len(kinds)], owner=f"owner-{owner:05}")
        for n in range(each)
        for owner in range(owners)
    ]


def test_a_claim_goes_on_after_the_owners_it_has_served(claims_of):
    """The first lane leaves most of its share, so the other one is asked a second time."""
    others = [NewJob(f"job-{n}", "work", downstream="b", owner=f"o{n}") for n in range(9)]
    claims = claims_of([NewJob("short", "work", downstream="a"), *others])
    assert claims.claim(6, ["work"]) == ["short", "job-0", "job-1", "job-2", "job-3", "job-4"]


def test_a_claim_goes_on_after_jobs_that_are_past_their_deadline(claims_of):
    late = [NewJob(f"late-{n}", "work", owner=f"o{n}", deadline_at=NOW - 0.5) for n in range(3)]
    claims = claims_of(late + [NewJob(f"job-{n}", "work", owner=f"o{n}") for n in range(3, 9)])
    assert claims.claim(4, ["work"]) == ["job-3", "job-4", "job-5", "job-6"]


def test_a_claim_that_would_not_end_is_noticed_here(claims_of):
    claims = claims_of(owned(1, 10))
    claims.steps = MOST_STEPS
    with pytest.raises(apsw.InterruptError):
        claims.claim(1, ["work"])


def test_a_claim_costs_no_more_with_many_jobs_of_each_owner(claims_of):
    few = steps_of(claims_of(owned(20, 20)))
    assert steps_of(claims_of(owned(20, 200))) < 1.1 * few


def test_a_claim_costs_no_more_with_many_owners(claims_of):
    kinds = [f"kind-{n}" for n in range(4)]
    few = steps_of(claims_of(owned(20, 40, kinds)), kinds)
    assert steps_of(claims_of(owned(500, 20, kinds)), kinds) < 1.1 * few


def test_a_claim_of_many_kinds_costs_at_most_one_claim_of_each(claims_of):
    kinds = [f"kind-{n}" for n in range(8)]
    one = steps_of(claims_of(owned(50, 40)))
    assert steps_of(claims_of(owned(50, 40, kinds)), kinds) < len(kinds) * one
