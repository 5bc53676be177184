"""The time of a claim on a large store, relative to an almost empty one.

The large store is filled through the store port, as workers do, so its indexes, counters and
history are realistic: N jobs queued, N held, 5 N finished. Then each store in turn enqueues a
batch, claims a batch (timed, including the commit) and completes it. N is 200 000, and 1 000 000
with `--full`.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.support.postgres_server import PostgresMissing, PostgresServer

from benchmarks.measure import Row, percentile, sized
from holdfast.bootstrap import TransactionalStore, open_store
from holdfast.ids import new_ids
from holdfast.jobs.client.downstream_control import DownstreamControl
from holdfast.jobs.downstreams.record import DownstreamSettings
from holdfast.jobs.model import Claim, Completed, Finished, NewJob
from holdfast.jobs.store_port import ClaimRequest
from holdfast.resilience.policy import BreakerPolicy
from holdfast.store.postgres.store import PostgresStore

QUEUE, KIND = "default", "bench.claimed"
DOWN, HELD_KIND = "down", "bench.held"
WORKER = "bench"
BATCH = 500
"""Jobs per claim, the default limit of a tick; so many that the commit is not the main cost."""
FILLING = 2_000
BOUND = 1.3
_KINDS = {KIND: None, HELD_KIND: None}


@dataclass(frozen=True)
class Sizes:
    """How many jobs the large store holds."""

    queued: int
    held: int
    finished: int

    def __str__(self) -> str:
        return f"{self.queued} queued, {self.held} held and {self.finished} finished jobs"


async def _enqueue(store: TransactionalStore, jobs: int, *, held: bool = False) -> None:
    kind, downstream = (HELD_KIND, DOWN) if held else (KIND, None)
    for start in range(0, jobs, FILLING):
        ids = new_ids(min(FILLING, jobs - start), time.time())
        await store.enqueue([NewJob(i, kind, QUEUE, "null", downstream=downstream) for i in ids])


async def _claim(store: TransactionalStore, jobs: int) -> tuple[Claim, ...]:
    result = await store.tick(WORKER, claim=ClaimRequest(jobs, (QUEUE,), _KINDS))
    if len(result.claims) != jobs or any(claim.kind != KIND for claim in result.claims):
        raise AssertionError(f"{len(result.claims)} of {jobs} jobs were claimed, or held ones")
    return result.claims


async def _complete(store: TransactionalStore, claims: tuple[Claim, ...]) -> None:
    done = [Finished(claim.lease, Completed("null"), duration=0.0) for claim in claims]
    result = await store.tick(WORKER, done)
    if result.refused:
        raise AssertionError(f"{len(result.refused)} completions were refused")


async def _fill(store: TransactionalStore, sizes: Sizes) -> None:
    await store.declare_downstreams([DownstreamSettings(DOWN, breaker=BreakerPolicy())])
    await DownstreamControl(store).hold(DOWN)
    for start in range(0, sizes.finished, FILLING):
        many = min(FILLING, sizes.finished - start)
        await _enqueue(store, many)
        await _complete(store, await _claim(store, many))
    await _enqueue(store, sizes.held, held=True)
    await _enqueue(store, sizes.queued)


async def _one_claim(store: TransactionalStore) -> float:
    """Return the seconds of claiming one batch; the number of queued jobs stays the same."""
    await _enqueue(store, BATCH)
    begin = time.perf_counter()
    claims = await _claim(store, BATCH)
    seconds = time.perf_counter() - begin
    await _complete(store, claims)
    return seconds


async def _compare(empty: TransactionalStore, large: TransactionalStore) -> float:
    """Return the median time of a claim on `large`, relative to `empty`, measured in turns."""
    seconds: dict[str, list[float]] = {"empty": [], "large": []}
    for number in range(sized(20, 200)):
        for name, store in (("empty", empty), ("large", large)):
            taken = await _one_claim(store)
            if number >= 5:  # the first rounds prepare statements and warm up caches
                seconds[name].append(taken)
    return percentile(seconds["large"], 0.5) / percentile(seconds["empty"], 0.5)


@asynccontextmanager
async def _two(
    empty: str, large: str
) -> AsyncIterator[tuple[TransactionalStore, TransactionalStore]]:
    stores = open_store(empty), open_store(large)
    await stores[0].open()
    await stores[1].open()
    try:
        yield stores
    finally:
        await stores[0].close()
        await stores[1].close()


async def _on_sqlite(folder: str, sizes: Sizes) -> float:
    addresses = f"sqlite:///{folder}/empty.db", f"sqlite:///{folder}/large.db"
    async with _two(*addresses) as (_, large):
        await _fill(large, sizes)
    # Opened again, so that the caches and the log of the filling do not affect the result.
    async with _two(*addresses) as (empty, large):
        return await _compare(empty, large)


async def _on_postgres(server: PostgresServer, sizes: Sizes) -> float:
    names = server.create_database(), server.create_database()
    for name in names:
        await PostgresStore(server.url(name)).migrate()
    addresses = server.url(names[0]), server.url(names[1])
    async with _two(*addresses) as (_, large):
        await _fill(large, sizes)
    for name in names:
        # Vacuum now, so that autovacuum does not run during the measurement.
        server.execute("VACUUM (ANALYZE)", name)
    server.execute("CHECKPOINT")
    async with _two(*addresses) as (empty, large):
        return await _compare(empty, large)


def rows() -> list[Row]:
    """Run every row of this file."""
    base = sized(2_000, 200_000, 1_000_000)
    sizes = Sizes(queued=base, held=base, finished=5 * base)
    counts: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        counts["SQLite"] = round(asyncio.run(_on_sqlite(folder, sizes)), 3)
    try:
        with PostgresServer() as server:
            counts["PostgreSQL"] = round(asyncio.run(_on_postgres(server, sizes)), 3)
    except PostgresMissing as missing:
        print(f"left out, growth on PostgreSQL: {missing}")
    return [
        Row(
            f"claim of {BATCH} with {sizes}, relative to an empty table",
            counts=counts,
            at_most=dict.fromkeys(counts, BOUND),
        )
    ]
