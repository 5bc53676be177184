"""Outages of the store under load: the server killed or restarted, the file locked, the disk full.

A client keeps enqueueing. Every acknowledged job must end complete; a job without an answer may
exist or not. Workers must resume by themselves, and log each outage once.
"""

import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

from campaigns.checker import judge, stale_writes
from campaigns.fleet import Fleet, environment, until
from campaigns.kill import new_jobs
from campaigns.ledger import Ledger
from campaigns.plan import CampaignOutcome, Plan, echo
from campaigns.temporary_store import TemporaryStore, count, read_all, temporary_store
from holdfast.jobs.store_port import Store, StoreUnavailable

_BACK = 30.0
"""Seconds after an outage in which a job must complete again."""
_DRAIN = 90.0
_DISK = "24m"
_LINES_EACH = 12
"""Lines that a worker may log per outage, apart from lost leases and refused reports."""
_LEASE_MESSAGES = (
    "lost its lease", "was refused", "reported again", "lost their workers", "LEASE_LOST",
)  # fmt: skip

Fault = Callable[[float], None]
"""Cause an outage of so many seconds; blocks until its end."""


def run(plan: Plan) -> CampaignOutcome:
    """Run the campaign."""
    with temporary_store(plan.store, plan.folder) as target:
        if target.server is not None and not target.server.private:
            return CampaignOutcome(skipped="the server is shared and must not be killed")
        outcome = _run_with(plan, target, plan.folder, _faults(target))
    if plan.store == "sqlite":
        _on_a_full_disk(plan, outcome)
    else:
        outcome.notes.append("a full disk is tested on SQLite only")
    return outcome


def _faults(target: TemporaryStore) -> list[tuple[str, Fault]]:
    server, path = target.server, target.path
    if server is not None:

        def killed(seconds: float) -> None:
            server.kill()
            time.sleep(seconds)
            server.start()

        def restarted(seconds: float) -> None:
            server.stop()
            time.sleep(seconds)
            server.start()

        return [("killed", killed), ("restarted", restarted)]
    assert path is not None

    def locked(seconds: float) -> None:
        # Longer than the store's busy timeout.
        _holder(path, seconds + 6.0).wait()

    def locker_killed(seconds: float) -> None:
        holder = _holder(path, 60.0)
        time.sleep(seconds + 6.0)
        holder.kill()
        holder.wait()

    return [("locked", locked), ("locked by a process that is killed", locker_killed)]


def _holder(path: Path, seconds: float) -> "subprocess.Popen[bytes]":
    """Start a process that holds the write lock; return when it has the lock."""
    code = (
        "import apsw, sys, time; db = apsw.Connection(sys.argv[1]); db.set_busy_timeout(20000);"
        "db.execute('BEGIN IMMEDIATE'); print('held', flush=True); time.sleep(float(sys.argv[2]))"
    )
    holder = subprocess.Popen(  # noqa: S603 - our own code
        [sys.executable, "-c", code, str(path), str(seconds)],
        stdout=subprocess.PIPE,
        env=environment(),
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    holder.stdout.close()
    return holder


def _on_a_full_disk(plan: Plan, outcome: CampaignOutcome) -> None:
    """Run the campaign again on a small file system that fills up."""
    with _small_disk() as disk:
        if disk is None:
            outcome.notes.append(
                "a full disk was not tested: mounting a small file system needs root"
            )
            return

        def full(seconds: float) -> None:
            filler = disk / "filler"
            with filler.open("wb", buffering=0) as file:
                try:
                    while file.write(b"\0" * 65536):
                        pass
                except OSError:
                    file.close()
            time.sleep(seconds + 1.0)
            filler.unlink()

        with temporary_store("sqlite", disk) as target:
            result = _run_with(plan, target, plan.folder / "disk", [("full", full)])
    outcome.findings += [f"full disk: {finding}" for finding in result.findings]
    outcome.figures |= {f"disk_{name}": value for name, value in result.figures.items()}


@contextmanager
def _small_disk() -> Iterator[Path | None]:
    folder = Path(tempfile.mkdtemp(prefix="holdfast-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, check=False)  # noqa: S603 - our own folder
    try:
        yield folder if done.returncode == 0 else None
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", str(folder)], check=False)  # noqa: S603, S607 - our own
        folder.rmdir()


def _run_with(
    plan: Plan, target: TemporaryStore, folder: Path, faults: list[tuple[str, Fault]]
) -> CampaignOutcome:
    folder.mkdir(exist_ok=True)
    with (
        Ledger(folder / "ledger") as ledger,
        Fleet(
            target.url, ledger, folder, concurrency=4, lease_seconds=20.0, extend_every=2.0
        ) as fleet,
    ):
        return asyncio.run(_Outages(plan, target.store(), ledger, fleet).run(faults))


async def recovery_seconds(ledger: Ledger, outcome: CampaignOutcome, name: str) -> float:
    """Return the seconds from now, the end of an outage, to the next accepted report.

    More than 30 s are a finding about the outage `name`.
    """
    began = time.monotonic()

    async def accepted() -> bool:
        for line in reversed(ledger.lines()):
            if line.what == "report" and line.accepted and line.began > began:
                return True
            # Long before the outage: a long campaign has more lines than can be read every time.
            if line.ended < began - _BACK:
                return False
        return False

    back = await until(accepted, _BACK)
    outcome.expect(back, f"nothing completed within {_BACK:g} s after: {name}")
    return time.monotonic() - began


class _Outages:
    """A client, workers, and one outage after the other."""

    def __init__(self, plan: Plan, store: Store, ledger: Ledger, fleet: Fleet) -> None:
        self.plan = plan
        self.store = store
        self.ledger = ledger
        self.fleet = fleet
        self.acknowledged: list[str] = []
        self.unknown: list[str] = []
        self.outcome = CampaignOutcome()
        self._stopping = False

    async def run(self, faults: list[tuple[str, Fault]]) -> CampaignOutcome:
        outcome, rng = self.outcome, self.plan.rng()
        rounds = self.plan.pick(6, 1)
        slowest = 0.0
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.store)
            await self.fleet.start_ready(3)
            client = asyncio.create_task(self._keep_enqueueing(rng))
            for _ in range(rounds):
                for name, fault in faults:
                    await asyncio.sleep(rng.uniform(0.5, 1.5))
                    echo(f"    {name}")
                    await asyncio.to_thread(fault, rng.uniform(0.2, 2.0))
                    slowest = max(slowest, await recovery_seconds(self.ledger, outcome, name))
            self._stopping = True
            await client
            outcome.expect(await until(self._drained, _DRAIN, 0.2), "not all jobs finished in time")
            stored = await read_all(self.store)
            # The others may have drained the queue while one worker still waits for its next try.
            await until(self._recovered, _DRAIN, 0.2)
            await self.fleet.stop_all()
        lines = self.ledger.lines()
        judgement = judge(self.acknowledged, self.unknown, stored, lines)
        outcome.findings += [*judgement.findings, *stale_writes(lines).findings]
        outages = rounds * len(faults)
        outcome.figures |= {
            "outages": outages,
            "acknowledged": len(self.acknowledged),
            "unknown": len(self.unknown),
            "unknown_and_stored": len(stored.keys() & set(self.unknown)),
            "slowest_recovery_seconds": round(slowest, 1),
            **self._logged(outages),
            **judgement.figures(),
        }
        return outcome

    async def _keep_enqueueing(self, rng: random.Random) -> None:
        number = 0
        while not self._stopping:
            jobs = new_jobs(3, rng, 0.05, name=f"j{number}-")
            number += 1
            names = [job.id for job in jobs]
            try:
                await self.store.enqueue(jobs)
            except StoreUnavailable:
                self.unknown += names
                await asyncio.sleep(0.2)
            else:
                self.acknowledged += names
            await asyncio.sleep(0.05)

    async def _drained(self) -> bool:
        try:
            lanes = (await self.store.stats()).lanes
        except StoreUnavailable:
            return False
        waiting = sum(lane.ready + lane.scheduled + lane.processing for lane in lanes)
        return waiting == 0 and await count(self.store, "complete") > 0

    async def _recovered(self) -> bool:
        return all(waits == backs for waits, backs in map(_outages_in, self.fleet.logs))

    def _logged(self, outages: int) -> dict[str, int]:
        """Count the outages that workers logged; too many or too few are findings."""
        logged, most, expect = 0, 0, self.outcome.expect
        for log in self.fleet.logs:
            lines = [
                line
                for line in log.read_text("utf-8", "replace").splitlines()
                if not any(message in line for message in _LEASE_MESSAGES)
            ]
            waits, backs = _outages_in(log)
            logged, most = max(logged, waits), max(most, len(lines))
            # A starting server may refuse, accept and refuse again: two outages for a worker.
            expect(
                waits <= 2 * outages, f"{log.name}: logged {waits} outages, there were {outages}"
            )
            expect(waits == backs, f"{log.name}: logged {waits} outages and {backs} recoveries")
            expect(
                len(lines) <= _LINES_EACH * outages,
                f"{log.name}: {len(lines)} lines for {outages} outages",
            )
        expect(logged > 0, "no worker noticed any outage")
        return {"outages_logged_at_most": logged, "log_lines_at_most": most}


def _outages_in(log: Path) -> tuple[int, int]:
    """Return how many outages and how many recoveries a worker has logged."""
    text = log.read_text("utf-8", "replace")
    return text.count("does not answer"), text.count("answers again")
