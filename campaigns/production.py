"""Everything that production does, at once: two apps on one PostgreSQL server, under faults.

Four workers of two apps and four clients, half of both behind a pooler, use one database. Workers
are killed and paused, the server is restarted and killed, a synchronous standby takes over, and a
forgotten transaction keeps its snapshot. Clients enqueue bulks with overlapping dedup keys for many
hosts; one job in a hundred is poison.

Every acknowledged job must end complete, once, or failed if it is poison. Afterwards the tables,
the event streams and the logs are checked as well: see `invariants` and `log_lines`.
"""

import asyncio
import signal
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

import asyncpg
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres_server import PostgresServer
from tests.support.postgres_standby import Standby

from campaigns.checker import judge, stale_writes
from campaigns.fleet import Fleet, WorkerProcess, until
from campaigns.invariants import violated
from campaigns.ledger import Ledger
from campaigns.log_lines import Logs
from campaigns.plan import CampaignOutcome, Plan, echo
from campaigns.production_load import EnqueueingClient, Follower, Shelf, Tally, doubled
from campaigns.store import recovery_seconds
from campaigns.temporary_store import read_all, temporary_store
from holdfast.bootstrap import open_store
from holdfast.jobs.store_port import Store, StoreUnavailable

_DRAIN = 180.0
"""Seconds in which the remaining jobs must finish after the last fault."""
_STREAM = 60.0
"""Seconds in which an event stream must show a completion while a snapshot is open."""
_APPS = ("campaigns.production_apps:shop", "campaigns.production_apps:mail")
_FULL = (
    (0.07, "restart"), (0.16, "kill"), (0.25, "restart"), (0.34, "kill"), (0.45, "failover"),
    (0.58, "snapshot"), (0.74, "restart"), (0.83, "kill"), (0.92, "restart"),
)  # fmt: skip
_SHORT = ((0.1, "restart"), (0.4, "failover"), (0.6, "snapshot"), (0.85, "kill"))
"""What happens to the server, by the share of the time that has passed."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of one run. Times are seconds."""

    seconds: float
    snapshot: float
    lease: float
    hosts: int
    faults: tuple[tuple[float, str], ...]
    worker_fault_every: float
    pause: float
    fatal_every: int


def sizes(plan: Plan) -> Sizes:
    """Return the sizes of the full or of the short form."""
    return Sizes(
        seconds=plan.pick(600, 16),
        snapshot=plan.pick(60, 3),
        lease=plan.pick(8, 4),
        hosts=plan.pick(2000, 250),
        faults=_FULL if plan.full else _SHORT,
        worker_fault_every=plan.pick(40, 15) / 10,
        pause=plan.pick(20, 8) / 10,
        fatal_every=plan.pick(1000, 200),
    )


def run(plan: Plan) -> CampaignOutcome:
    """Run the campaign.

    Raises:
        PostgresMissing: PostgreSQL or PgBouncer is not available.
    """
    if plan.store != "postgres":
        return CampaignOutcome(skipped="it needs a server, a standby and a pooler: PostgreSQL")
    with temporary_store(plan.store, plan.folder, fsync=plan.full) as target:
        server = target.server
        assert server is not None
        if not server.private:
            return CampaignOutcome(skipped="the server is shared and must not be killed")
        size = sizes(plan)
        with (
            Standby(server) as standby,
            PgBouncer(server) as pooler,
            Ledger(plan.folder / "ledger") as ledger,
            Fleet(
                target.url, ledger, plan.folder,
                concurrency=8, lease_seconds=size.lease, extend_every=size.lease / 8,
            ) as fleet,
        ):  # fmt: skip
            standby.require()
            pooled = pooler.url(urlsplit(target.url).path.removeprefix("/"))
            site = Site(target.url, pooled, server, server, standby, pooler, ledger, fleet)
            return asyncio.run(_Production(plan, size, site).run())


@dataclass(slots=True)
class Site:
    """What the campaign runs on; `server` is the one that serves now, first the `first`."""

    url: str
    pooled_url: str
    first: PostgresServer
    server: PostgresServer
    standby: Standby
    pooler: PgBouncer
    ledger: Ledger
    fleet: Fleet


class _Production:
    """One run."""

    def __init__(self, plan: Plan, size: Sizes, site: Site) -> None:
        self.plan = plan
        self.size = size
        self.site = site
        self.outcome = CampaignOutcome()
        self.tally = Tally()
        self.logs = Logs()
        self.faults: Counter[str] = Counter()
        self.slowest_recovery = 0.0
        self._rng = plan.rng("faults")
        self._roles: dict[WorkerProcess, tuple[str, str]] = {}
        self._starting: list[WorkerProcess] = []
        self._paused: set[WorkerProcess] = set()
        self._loading, self._ended = True, False
        shelf = Shelf(size.hosts, 0.05)
        self._clients = [
            EnqueueingClient(
                f"c{number}", url, self.tally, shelf, plan.rng(f"client {number}"),
                pause=size.pause, fatal_every=size.fatal_every,
            )
            for number, url in enumerate((site.url, site.pooled_url) * 2)
        ]  # fmt: skip
        self._followers = [Follower(site.url), Follower(site.pooled_url)]

    async def run(self) -> CampaignOutcome:
        with self.logs.of_this_process():
            async with open_store(self.site.url) as store:
                for app in _APPS:
                    for url in (self.site.url, self.site.pooled_url):
                        self._start(app, url)
                await self._ready()
                await self._load(store)
                await self._ready()
                await self._judge(store)
        return self.outcome

    # -- the load and the faults ---------------------------------------------------------------

    async def _load(self, store: Store) -> None:
        async with asyncio.TaskGroup() as group:
            for follower in self._followers:
                group.create_task(follower.run())
            clients = [group.create_task(client.run()) for client in self._clients]
            group.create_task(self._supervise())
            await self._server_faults()
            for client in self._clients:
                client.stopping = True
            await asyncio.wait(clients)
            self._loading = False
            for worker in tuple(self._paused):
                self._resume(worker)
            drained = await until(lambda: _finished(store), _DRAIN, 0.3)
            self.outcome.expect(drained, "not all jobs finished in time")
            self._ended = True
            for follower in self._followers:
                follower.stopping = True

    def _start(self, app: str, url: str) -> None:
        worker = self.site.fleet.start(app=app, url=url)
        self._roles[worker] = app, url
        self._starting.append(worker)

    async def _ready(self) -> None:
        """Wait for all workers that were started and are still in the fleet."""
        for worker in self._starting:
            if worker in self._roles:
                await worker.ready()
        self._starting.clear()

    def _replace(self, worker: WorkerProcess) -> None:
        self._paused.discard(worker)
        self.site.fleet.remove(worker)
        self._start(*self._roles.pop(worker))

    async def _supervise(self) -> None:
        """Replace workers that died; while there is load, kill and pause some."""
        every = self.size.worker_fault_every
        due = time.monotonic() + every
        while not self._ended:
            for worker in [each for each in self._roles if each.dead]:
                self.faults["worker killed by poison"] += 1
                self._replace(worker)
            if self._loading and time.monotonic() > due:
                due += self._rng.uniform(0.5, 1.5) * every
                self._worker_fault()
            await asyncio.sleep(0.1)

    def _worker_fault(self) -> None:
        running = [each for each in self._roles if each not in self._paused]
        if not running:
            return
        worker = self._rng.choice(running)
        if self._rng.random() < 0.5:
            self.faults["worker killed"] += 1
            self._replace(worker)
            return
        self.faults["worker paused"] += 1
        worker.signal(signal.SIGSTOP)
        self._paused.add(worker)
        asyncio.get_running_loop().call_later(
            self._rng.uniform(0.2, 1.5) * self.size.lease, self._resume, worker
        )

    def _resume(self, worker: WorkerProcess) -> None:
        if worker in self._paused:
            self._paused.discard(worker)
            worker.signal(signal.SIGCONT)

    async def _server_faults(self) -> None:
        """Let happen to the server what the plan says, each at its time."""
        began = time.monotonic()
        for share, fault in self.size.faults:
            await asyncio.sleep(began + share * self.size.seconds - time.monotonic())
            echo(f"    {time.monotonic() - began:.0f} s: {fault}")
            self.faults[fault] += 1
            if fault == "snapshot":
                await self._hold_snapshot()
                continue
            await asyncio.to_thread(getattr(self, f"_{fault}"))
            seconds = await recovery_seconds(self.site.ledger, self.outcome, fault)
            self.slowest_recovery = max(self.slowest_recovery, seconds)
        await asyncio.sleep(began + self.size.seconds - time.monotonic())

    def _restart(self) -> None:
        self.site.server.restart()

    def _kill(self) -> None:
        self.site.server.kill()
        self.site.server.start()

    def _failover(self) -> None:
        self.site.standby.wait_until_required()
        self.site.standby.take_over()
        self.site.server = self.site.standby

    async def _hold_snapshot(self) -> None:
        """Keep a snapshot, and a transaction that has enqueued; streams and jobs go on."""
        async with AsyncExitStack() as stack:
            reader = await asyncpg.connect(self.site.url)
            stack.push_async_callback(reader.close)
            await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            await reader.fetch("SELECT count(*) FROM holdfast.jobs")
            await stack.enter_async_context(self._clients[0].forgotten_transaction())
            before = [follower.completions.total() for follower in self._followers]
            await asyncio.sleep(self.size.snapshot)
            for follower, seen in zip(self._followers, before, strict=True):
                # In a short time it may be that all workers are paused.
                goes_on = partial(_grew, follower, seen)
                self.outcome.expect(
                    await until(goes_on, _STREAM), "an open snapshot stopped an event stream"
                )
                new = follower.completions.total() - seen
                self.outcome.figures["completed_during_snapshot"] = new
            await reader.execute("ROLLBACK")

    # -- the judgement -------------------------------------------------------------------------

    async def _judge(self, store: Store) -> None:
        outcome, tally, site = self.outcome, self.tally, self.site
        statuses = await site.fleet.stop_all()
        outcome.expect(not any(statuses), f"workers ended with {statuses}")
        stored = await read_all(store)
        refused = (await store.stats()).totals.get("refused_writes", 0)
        lines = site.ledger.lines()
        judgement = judge(tally.acknowledged, tally.unknown, stored, lines, tally.poison)
        outcome.findings += [*tally.findings, *judgement.findings, *stale_writes(lines).findings]
        outcome.findings += [*doubled(tally, stored), *await violated(store, site.url)]
        for follower in self._followers:
            outcome.findings += follower.missed(stored)
        for log in site.fleet.logs:
            self.logs.read_worker(log.read_text("utf-8", "replace"))
        for name, server in (("first", site.first), ("standby", site.standby)):
            (self.plan.folder / f"{name}.log").write_text(server.log())
            self.logs.read_server(server.log())
        (self.plan.folder / "pooler.log").write_text(site.pooler.log())
        self.logs.read_pooler(site.pooler.log())
        outcome.findings += self.logs.findings()
        failed = {job for job, kept in stored.items() if kept.status == "failed"}
        outcome.expect(bool(failed), "no poison was enqueued")
        outcome.expect(tally.unanswered_calls > 0, "no client noticed any outage")
        hosts = {line.detail for line in lines if line.what == "claim" and ":" in line.detail}
        outcome.figures |= {
            "acknowledged": len(tally.acknowledged),
            "unknown": len(tally.unknown),
            "unknown_and_stored": len(stored.keys() & tally.unknown),
            "unanswered_calls": tally.unanswered_calls,
            "rolled_back": tally.rolled_back,
            "hosts": len(hosts),
            "dead_letters": len(failed),
            "poison_that_kills": tally.fatal,
            **{name.replace(" ", "_"): number for name, number in sorted(self.faults.items())},
            "run_again": sum(job.attempt_count > 1 for job in stored.values()),
            "refused_writes": refused,
            "slowest_recovery_seconds": round(self.slowest_recovery, 1),
            **{
                f"logged_{cause.replace(' ', '_')}": number
                for cause, number in sorted(self.logs.causes.items())
            },
            **judgement.figures(),
        }


async def _grew(follower: Follower, seen: int) -> bool:
    return follower.completions.total() > seen


async def _finished(store: Store) -> bool:
    try:
        lanes = (await store.stats()).lanes
    except StoreUnavailable:
        return False
    return not sum(lane.ready + lane.scheduled + lane.processing for lane in lanes)
