"""One tick of a worker: record what finished, then claim the next jobs.

Usually that is one statement. Where a report changes a breaker, or jobs wait in a lane with a
limit or with a breaker that is not simply closed, it is a transaction of several statements. The
claim finds such lanes; the first time, the reports are committed by then, and a second transaction
claims.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from itertools import repeat
from typing import Any

from msgspec.structs import replace

from holdfast.clock import Clock
from holdfast.jobs.downstreams.record import CallReport, by_downstream
from holdfast.jobs.model import Claim, Completed, Finished, Lease, NewJob
from holdfast.jobs.store_port import ClaimRequest, StoreError, StoreUnavailable, TickResult
from holdfast.store.postgres.claim import CheckedClaim, Started
from holdfast.store.postgres.claim_memory import NO_LANES, ClaimMemory
from holdfast.store.postgres.columns import PAGE, TIMEOUT_COLUMNS
from holdfast.store.postgres.connection import Connection, Database, rows
from holdfast.store.postgres.downstream_records import KnownDownstreams
from holdfast.store.postgres.enqueue import Prepared, UnknownLane, create_in, prepare
from holdfast.store.postgres.finish import NO_REPORTS, report_columns, wakes
from holdfast.store.postgres.lanes import Lane, Lanes
from holdfast.store.postgres.tick_work import TickWork

_log = logging.getLogger("holdfast.store")

_SEQS_KEPT = 100_000
_NOTHING = repeat(None)
_NO_CLAIM: dict[str, Any] = {
    "queues": [], "kinds": [], "limited": [], "limit": None, "lease": None, **NO_LANES,
}  # fmt: skip


class Ticker:
    """Does the ticks of one store; `memory` is what it remembers from one claim to the next."""

    def __init__(self, database: Database, lanes: Lanes, clock: Clock) -> None:
        self._database = database
        self._lanes = lanes
        self.memory = ClaimMemory(lanes, clock)
        self._known = KnownDownstreams(database)
        self._seqs: dict[str, int] = {}
        self._needs_check = False

    async def tick(
        self,
        worker_id: str,
        finished: Sequence[Finished],
        request: ClaimRequest | None,
        now: float | None,
    ) -> TickResult:
        """Do one tick; its `mark` is for the caller to fill in."""
        if wakes(finished):
            self.memory.requeued()
        reports = by_downstream(item.report for item in finished if item.report is not None)
        versions = await self._known.quiet_versions(reports) if reports else {}
        needs_check = (
            request is not None
            and request.limit > 0
            and (self._needs_check or request.owner_limits.limits_claims)
        )
        brings_jobs = any(item.jobs for item in finished)
        if versions is None or needs_check or brings_jobs or len(finished) > PAGE:
            work = await self._tick_with_checks(worker_id, finished, request, now, versions)
        else:
            work = await self._tick_at_once(worker_id, finished, request, now, versions)
            if work.needs_check and request is not None:
                await self._claim_later(worker_id, request, now, work)
        if work.outdated:
            self._known.forget(reports)
            work = await self._tick_with_checks(worker_id, finished, request, now, None)
        if request is not None:
            self._needs_check = work.needs_check
        forget = self._seqs.pop
        for item in finished:
            forget(item.lease.job_id, None)
        return self._result(worker_id, request, work, await self._lost_workers(request, work))

    async def quiet_versions(self, report: CallReport | None) -> dict[str, int | None] | None:
        """Return the versions at which `report` changes no breaker; None if it changes one."""
        return await self._known.quiet_versions(by_downstream([report])) if report else {}

    async def judge(self, worker_id: str, report: CallReport, now: float) -> TickWork:
        """Judge the call of an attempt that was reported in another transaction."""

        async def work_in(connection: Connection) -> TickWork:
            return await self._claim_in(connection, worker_id, None, TickWork(), [report], now)

        self._known.forget([report.downstream])
        return await self._database.transaction(work_in)

    def reported(self, job_id: str) -> None:
        """Forget a job that was reported in another transaction."""
        self._seqs.pop(job_id, None)

    async def _tick_at_once(
        self,
        worker_id: str,
        finished: Sequence[Finished],
        request: ClaimRequest | None,
        now: float | None,
        versions: dict[str, int | None],
    ) -> TickWork:
        finished = self._in_lock_order(finished)
        lines = await self._database.write(
            "tick",
            names=list(versions),
            versions=list(versions.values()),
            **self._report_columns(finished),
            **self._claim_columns(request),
            worker=worker_id,
            timeout=TIMEOUT_COLUMNS,
            now=now,
        )
        work = TickWork()
        work.read(finished, lines)
        return work

    def _in_lock_order(self, finished: Sequence[Finished]) -> list[Finished]:
        """Return `finished` in the order in which all workers lock jobs: by primary key."""
        seqs = self._seqs
        return sorted(finished, key=lambda item: seqs.get(item.lease.job_id, 0))

    def _report_columns(self, finished: Sequence[Finished]) -> dict[str, Any]:
        return report_columns(finished, self._seqs) if finished else NO_REPORTS

    def _claim_columns(self, request: ClaimRequest | None) -> dict[str, Any]:
        if request is None:
            return _NO_CLAIM
        return {
            "queues": request.queues,
            "kinds": list(request.kinds),
            "limited": [kind for kind, limit in request.kinds.items() if limit is not None],
            "limit": request.limit,
            "lease": request.lease_seconds,
            **self.memory.columns(request),
        }

    async def _tick_with_checks(
        self,
        worker_id: str,
        finished: Sequence[Finished],
        request: ClaimRequest | None,
        now: float | None,
        versions: dict[str, int | None] | None,
    ) -> TickWork:
        """Do it in several statements; `versions` is None where a report may change a breaker."""
        known = versions or {}
        brought = _accepted_jobs(finished, TickWork())
        prepared: Prepared | None = None
        if brought:
            prepared = await prepare(self._database, self._lanes, brought, now)

        async def work_in(connection: Connection) -> TickWork:
            work, ordered = TickWork(), self._in_lock_order(finished)
            for start in range(0, len(ordered), PAGE):
                some = ordered[start : start + PAGE]
                lines = await rows(
                    connection,
                    "tick",
                    names=list(known),
                    versions=list(known.values()),
                    **self._report_columns(some),
                    **_NO_CLAIM,
                    worker=worker_id,
                    timeout=TIMEOUT_COLUMNS,
                    now=now,
                )
                work.read(some, lines)
                if work.outdated:
                    return work
            refused = {id(refused.lease) for refused in work.refused}
            jobs = _accepted_jobs(finished, work)
            if jobs and prepared is not None:
                await create_in(connection, jobs, prepared)
                self.memory.enqueued(jobs)
            # Breakers are judged in the order in which the calls ended, that of `finished`.
            reports = [
                item.report
                for item in finished
                if versions is None and item.report and id(item.lease) not in refused
            ]
            moment = work.now if ordered else now  # None: the claim asks for the time
            return await self._claim_in(connection, worker_id, request, work, reports, moment)

        try:
            work = await self._database.transaction(work_in)
        except UnknownLane:
            self._lanes.forget()
            return await self._tick_with_checks(worker_id, finished, request, now, versions)
        if versions is None:
            self._known.forget({item.report.downstream for item in finished if item.report})
        return work

    async def _claim_later(
        self, worker_id: str, request: ClaimRequest, now: float | None, work: TickWork
    ) -> None:
        """Claim in a second transaction, after one that found lanes to be checked.

        The reports are committed by then, and answered even where this fails: the next tick will
        notice the outage.
        """
        moment = work.now if now is None else now

        async def claim_in(connection: Connection) -> TickWork:
            return await self._claim_in(connection, worker_id, request, TickWork(), (), moment)

        try:
            later = await self._database.transaction(claim_in)
        except StoreUnavailable:
            work.wake_at = moment
            work.claim_lost = True
            return
        work.started, work.lanes = later.started, later.lanes
        work.scanned, work.idle = later.scanned, later.idle
        work.timed_out += later.timed_out
        work.moved += later.moved
        work.wake_at = later.wake_at
        work.needs_check = later.needs_check

    async def _claim_in(
        self,
        connection: Connection,
        worker_id: str,
        request: ClaimRequest | None,
        work: TickWork,
        reports: Sequence[Any],
        moment: float | None,
    ) -> TickWork:
        """Judge `reports` and claim; return `work` with what was done."""
        claim = CheckedClaim(connection, worker_id, request, moment, self.memory)
        await claim.run(by_downstream(reports))
        work.now = claim.now
        work.started += claim.started
        work.timed_out += claim.timed_out
        work.moved += claim.moved
        work.wake_at = claim.wake_at
        work.needs_check = claim.needs_check
        work.lanes, work.scanned, work.idle = claim.lanes, claim.scanned, claim.idle
        return work

    async def _lost_workers(self, request: ClaimRequest | None, work: TickWork) -> Collection[int]:
        """Return which of the claimed jobs have lost a worker, where the request asks for them.

        The reports and the claims are committed by then, and answered even where this fails: all
        that were tried before count as suspects, which the worker starts one by one.
        """
        if request is None or not request.with_lost_workers:
            return ()
        tried = [
            seq
            for started in work.started
            for seq, attempt in zip(started.line["seqs"], started.line["attempts"], strict=True)
            if attempt > 1
        ]
        if not tried:
            return ()
        try:
            found = await self._database.rows("claim_lost_workers", seqs=tried)
        except StoreError as error:
            _log.warning("which of %d jobs have lost a worker is unknown: %s", len(tried), error)
            return set(tried)
        return {row["seq"] for row in found}

    def _result(
        self,
        worker_id: str,
        request: ClaimRequest | None,
        work: TickWork,
        lost: Collection[int] = (),
    ) -> TickResult:
        claims: list[Claim] = []
        if request is not None:
            lines = [started.line for started in work.started]
            self.memory.learn(
                request, lines, names=work.lanes, scanned=work.scanned, idle=work.idle
            )
            expires_at = work.now + request.lease_seconds
            for started, line in zip(work.started, lines, strict=True):
                some = _claims(started, work.lanes, worker_id, work.now, expires_at)
                claims += _marked(some, line["seqs"], lost) if lost else some
                if len(self._seqs) > _SEQS_KEPT:  # of workers that never reported
                    self._seqs.clear()
                self._seqs.update(zip(line["ids"], line["seqs"], strict=True))
        return TickResult(
            claims=tuple(claims),
            refused=tuple(work.refused),
            overruled=tuple(work.overruled),
            moved=tuple(work.moved),
            timed_out=tuple(work.timed_out),
            wake_at=work.wake_at,
            mark=0,
            now=work.now,
            claim_lost=work.claim_lost,
        )


def _marked(claims: Sequence[Claim], seqs: Sequence[int], lost: Collection[int]) -> list[Claim]:
    """Mark the claims of jobs that have lost a worker."""
    return [
        replace(claim, lost_worker=True) if seq in lost else claim
        for claim, seq in zip(claims, seqs, strict=True)
    ]


def _accepted_jobs(finished: Sequence[Finished], work: TickWork) -> list[NewJob]:
    """Return the jobs of the completions that `work` has not refused or overruled."""
    elsewhere = {id(each.lease) for each in work.refused}
    elsewhere |= {id(each.lease) for each in work.overruled}
    return [
        job
        for item in finished
        if isinstance(item.outcome, Completed) and id(item.lease) not in elsewhere
        for job in item.jobs
    ]


def _claims(
    started: Started, lanes: Mapping[int, Lane], worker_id: str, now: float, expires_at: float
) -> list[Claim]:
    (
        _, _, _, _, _, ids, tokens, lane_ids, attempts, max_attempts, created_ats, deadlines, _,
        owners, metas, arguments, _, _, _, _, _,
    ) = started.line  # fmt: skip
    columns = zip(
        ids, tokens, lane_ids, arguments, attempts, max_attempts, owners or _NOTHING, created_ats,
        deadlines or _NOTHING, metas or _NOTHING, started.admitted, strict=False,
    )  # fmt: skip
    claims = []
    for (
        job_id, token, lane_id, argument, attempt, most, owner, created_at, deadline_at, meta,
        (admission, permit),
    ) in columns:  # fmt: skip
        queue, downstream, kind = lanes[lane_id]
        lease = Lease(job_id, token, worker_id, expires_at)
        claim = Claim(
            lease, kind, queue, downstream or None, argument, attempt, most, owner, created_at,
            now, deadline_at, meta, admission, permit,
        )  # fmt: skip
        claims.append(claim)
    return claims
