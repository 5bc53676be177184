"""A store wrapper that records calls and answers in the ledger, and kills its process on demand.

Only the workers of campaigns use it; the engine has no code for it.
"""

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

import apsw

from campaigns.ledger import LedgerClient, Line
from holdfast.jobs.heartbeat_port import WorkerRequests
from holdfast.jobs.model import (
    Cancelled,
    Completed,
    Failed,
    Finished,
    Lease,
    Outcome,
    Released,
    Retry,
)
from holdfast.jobs.store_port import (
    ClaimRequest,
    Extended,
    Heartbeats,
    Store,
    StoreUnavailable,
    TickResult,
)

CRASH = "CAMPAIGN_CRASH"
"""The environment variable with the crash point: `name:n` to die at its n-th passing."""

POINTS = (
    "before_claim",
    "after_claim",
    "before_report",
    "after_report",
    "before_extend",
    "after_extend",
    "before_rescue",
    "after_rescue",
    "before_lead",
    "after_effect",
    "in_commit",
)
"""All crash points. `in_commit` is inside the commit of a transaction, on SQLite only."""

_NAMES: dict[type[Outcome], str] = {
    Completed: "complete",
    Retry: "retry",
    Failed: "failed",
    Released: "released",
    Cancelled: "cancelled",
}


def _name(outcome: Outcome) -> str:
    # Reported by workers of the release before this one for failed trials.
    if isinstance(outcome, Retry) and not outcome.counted:
        return "uncounted"
    return _NAMES[type(outcome)]


class CrashPoint:
    """Kills this process with SIGKILL at the n-th passing of a point; by default never."""

    def __init__(self, spec: str = "") -> None:
        self._name, _, times = spec.partition(":")
        self._left = int(times or 1)
        if self._name == "in_commit":
            apsw.connection_hooks.append(self._arm)

    def passed(self, name: str) -> None:
        """Note that the point `name` is reached; die if it is the chosen one."""
        if not name or name != self._name:
            return
        self._left -= 1
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def _arm(self, connection: apsw.Connection) -> None:
        def commit() -> bool:
            self.passed("in_commit")
            return False

        connection.set_commit_hook(commit)


class RecordingStore:
    """Wraps the store of a worker."""

    def __init__(
        self, store: Store, ledger: LedgerClient, crash: CrashPoint, slow_extend: float = 0.0
    ) -> None:
        """Wrap `store`; heartbeats are delayed by `slow_extend` seconds."""
        self._store = store
        self._ledger = ledger
        self._crash = crash
        self._slow_extend = slow_extend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def tick(
        self,
        worker_id: str,
        finished: Sequence[Finished] = (),
        claim: ClaimRequest | None = None,
        *,
        now: float | None = None,
    ) -> TickResult:
        """Tick, and record reports and claims."""
        self._pass("before_claim" if claim is not None else "", "before_report" if finished else "")
        began = time.monotonic()
        try:
            result = await self._store.tick(worker_id, finished, claim, now=now)
        except StoreUnavailable:
            await self._record(self._reports(finished, None, began))
            raise
        self._pass("after_claim" if result.claims else "", "after_report" if finished else "")
        refused = {(refusal.lease.job_id, refusal.lease.token) for refusal in result.refused}
        lines = self._reports(finished, refused, began)
        ended, process = time.monotonic(), os.getpid()
        for each in result.claims:
            permit = None if each.permit is None else (each.permit.generation, each.permit.trial)
            lines.append(
                Line(
                    "claim",
                    each.job_id,
                    each.lease.token,
                    each.attempt,
                    True,
                    began,
                    ended,
                    process,
                    each.downstream or "",
                    permit,
                )
            )
        for record in result.moved:
            lines.append(
                Line(
                    "moved",
                    record.name,
                    record.circuit.generation,
                    began=began,
                    ended=ended,
                    worker=process,
                    detail=str(record.circuit.state),
                )
            )
        await self._record(lines)
        return result

    def _pass(self, *names: str) -> None:
        for name in names:
            self._crash.passed(name)

    def _reports(
        self, finished: Sequence[Finished], refused: set[tuple[str, int]] | None, began: float
    ) -> list[Line]:
        lines = []
        for each in finished:
            lease = each.lease
            accepted = None if refused is None else (lease.job_id, lease.token) not in refused
            lines.append(
                Line(
                    "report",
                    lease.job_id,
                    lease.token,
                    0,
                    accepted,
                    began,
                    time.monotonic(),
                    os.getpid(),
                    _name(each.outcome),
                )
            )
        return lines

    async def _record(self, lines: Sequence[Line]) -> None:
        if lines:
            await asyncio.to_thread(self._ledger.record, *lines)

    async def progress(
        self,
        lease: Lease,
        progress: float | None,
        note: str | None = None,
        *,
        record: bool = False,
        now: float | None = None,
    ) -> bool:
        """Store progress, and record whether it was accepted."""
        began = time.monotonic()
        accepted = await self._store.progress(lease, progress, note, record=record, now=now)
        line = Line(
            "progress", lease.job_id, lease.token, 0, accepted, began, time.monotonic(), os.getpid()
        )
        await self._record([line])
        return accepted

    async def rescue(self, *, limit: int = 500, now: float | None = None) -> Any:
        """Rescue, with a crash point before and after."""
        self._crash.passed("before_rescue")
        rescued = await self._store.rescue(limit=limit, now=now)
        if rescued.requeued:
            self._crash.passed("after_rescue")
        return rescued

    async def lead(
        self, name: str, holder: str, seconds: float, *, now: float | None = None
    ) -> Any:
        """Ask for leadership, with a crash point before."""
        self._crash.passed("before_lead")
        return await self._store.lead(name, holder, seconds, now=now)

    def heartbeats(self, kinds: Sequence[str] | None = None) -> Heartbeats:
        """Return the heartbeat's part, wrapped as well."""
        return _RecordingHeartbeats(
            self._store.heartbeats(kinds), self._ledger, self._crash, self._slow_extend
        )


class _RecordingHeartbeats:
    def __init__(
        self, heartbeats: Heartbeats, ledger: LedgerClient, crash: CrashPoint, slow: float
    ) -> None:
        self._heartbeats = heartbeats
        self._ledger = ledger
        self._crash = crash
        self._slow = slow

    async def extend(
        self, leases: Sequence[Lease], lease_seconds: float, *, now: float | None = None
    ) -> Extended:
        self._crash.passed("before_extend")
        await asyncio.sleep(self._slow)
        began = time.monotonic()
        extended = await self._heartbeats.extend(leases, lease_seconds, now=now)
        self._crash.passed("after_extend")
        ended, process = time.monotonic(), os.getpid()
        lost = {(lease.job_id, lease.token) for lease in extended.lost}
        lines = [
            Line(
                "extend",
                lease.job_id,
                lease.token,
                0,
                (lease.job_id, lease.token) not in lost,
                began,
                ended,
                process,
            )
            for lease in leases
        ]
        await asyncio.to_thread(self._ledger.record, *lines)
        return extended

    async def register(self, worker_id: str) -> None:
        await self._heartbeats.register(worker_id)

    async def requests(self, worker_id: str) -> WorkerRequests:
        return await self._heartbeats.requests(worker_id)

    async def close(self) -> None:
        await self._heartbeats.close()
