"""A claim in one statement shares its jobs out as `holdfast.jobs.claim_sharing` says."""

import asyncio
from collections import Counter
from itertools import count

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.jobs.model import NewJob
from holdfast.jobs.store_port import ClaimRequest
from holdfast.store.postgres.store import PostgresStore

NO_LIMIT = {"a": None, "b": None}
# More than can ever run. A limit makes the store check every claim, by the rule in Python.
CHECKED = {"a": 1_000_000, "b": 1_000_000}

QUEUES = "xyz"
PRIORITIES = st.lists(st.integers(0, 2), min_size=1, max_size=12)
LIMIT = st.integers(1, 20)
# After the second round the lane that was asked last is the first one to be asked again.
THREE_ROUNDS = {
    ("x", "", "a"): [0] * 6,
    ("x", "g", "a"): [0] * 4,
    ("x", "h", "a"): [0] * 2,
    ("y", "", "a"): [0],
    ("y", "g", "a"): [0],
    ("z", "", "a"): [0] * 5,
}


@pytest.fixture(params=[0, 1e9], ids=["all lanes", "remembered lanes"], autouse=True)
def scan_share(request, monkeypatch):
    """Let each claim look through all lanes, or at remembered lanes first, whatever time it is."""
    for name in ("_SCAN_SHARE", "_SCAN_EVERY"):
        monkeypatch.setattr(f"holdfast.store.postgres.claim_memory.{name}", request.param)


def lanes(kinds):
    """Return a strategy for the priorities of jobs that wait, by queue, downstream and kind."""
    lane = st.tuples(st.sampled_from(QUEUES), st.sampled_from(["", "g", "h"]), kinds)
    return st.dictionaries(lane, PRIORITIES, min_size=1, max_size=8)


class Claims:
    """What two stores on one database claim: one in SQL alone, the other by the rule in Python.

    There are two stores because each remembers which lane it served last.
    """

    def __init__(self, url):
        self._stores = {"sql": PostgresStore(url), "rule": PostgresStore(url)}
        self._numbers = count()

    async def open(self):
        for store in self._stores.values():
            await store.open()

    async def close(self):
        for store in self._stores.values():
            await store.close()

    async def of_both(self, waiting, limits):
        """Return the jobs that each store claims from `waiting`, one claim for each limit."""
        number = next(self._numbers)
        return [
            await self._of(self._stores["sql"], f"sql{number}-", waiting, limits, NO_LIMIT),
            await self._of(self._stores["rule"], f"rule{number}-", waiting, limits, CHECKED),
        ]

    async def _of(self, store, prefix, waiting, limits, kinds):
        jobs = [
            NewJob(
                f"{prefix} {queue}.{downstream}.{kind}.{number}",
                kind,
                queue=prefix + queue,
                downstream=prefix + downstream if downstream else None,
                priority=priority,
            )
            for (queue, downstream, kind), priorities in waiting.items()
            for number, priority in enumerate(priorities)
        ]
        await store.enqueue(jobs, now=1000.0)
        queues = tuple(prefix + queue for queue in QUEUES)
        claimed = []
        for limit in (*limits, len(jobs)):
            result = await store.tick("worker", [], ClaimRequest(limit, queues, kinds), now=1000.0)
            claimed.append({claim.job_id.partition(" ")[2] for claim in result.claims})
        assert sum(map(len, claimed)) == len(jobs)
        return claimed[:-1]


def compare(url, waiting, limits, check):
    """Let `check` compare what both stores claim, for many examples."""
    claims = Claims(url)
    with asyncio.Runner() as runner:

        @settings(max_examples=40, deadline=None)
        @example(THREE_ROUNDS, [18])
        @given(waiting, limits)
        def examples(waiting, limits):
            check(*runner.run(claims.of_both(waiting, limits)))

        runner.run(claims.open())
        try:
            examples()
        finally:
            runner.run(claims.close())


def test_sql_and_the_rule_take_the_same_jobs_from_lanes_of_one_kind(postgres_url):
    def check(in_sql, by_rule):
        assert in_sql == by_rule

    compare(postgres_url, lanes(st.just("a")), st.lists(LIMIT, min_size=1, max_size=3), check)


def test_from_lanes_of_several_kinds_their_shares_differ_by_one_job_at_most(postgres_url):
    def shares(jobs):
        return Counter(job.rsplit(".", 2)[0] for job in jobs)

    def check(in_sql, by_rule):
        (taken_in_sql,), (taken_by_rule,) = in_sql, by_rule
        assert len(taken_in_sql) == len(taken_by_rule)
        one, other = shares(taken_in_sql), shares(taken_by_rule)
        assert all(abs(one[lane] - other[lane]) <= 1 for lane in one | other)

    kinds = st.sampled_from(["a", "b"])
    compare(postgres_url, lanes(kinds), st.lists(LIMIT, min_size=1, max_size=1), check)
