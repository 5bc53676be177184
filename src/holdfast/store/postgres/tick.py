"""One tick of a worker: record what finished, then claim the next jobs.

Usually that is one statement. Where a report changes a breaker, or jobs wait in a lane with a
limit or with a breaker that is not simply closed, it is a transaction of several statements. The
claim finds such lanes; the first time, the reports are committed by then, and a second transaction
claims.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from holdfast.jobs.downstreams.record import DownstreamRecord
from holdfast.jobs.model import Claim, Finished, Lease
from holdfast.jobs.store_port import ClaimRequest, Overruled, Refused, StoreUnavailable, TickResult
from holdfast.store.postgres import downstreams
from holdfast.store.postgres.claim import CheckedClaim, Started, unchecked
from holdfast.store.postgres.columns import PAGE, TIMED_OUT
from holdfast.store.postgres.connection import Connection, Database, Row, rows
from holdfast.store.postgres.downstreams import KnownDownstreams
from holdfast.store.postgres.finish import NO_REPORTS, OVERRULINGS, REFUSALS, report_columns
from holdfast.store.postgres.lanes import Lane, Lanes

_SEQS_KEPT = 100_000
_NOTHING = repeat(None)
_NO_CLAIM: dict[str, Any] = {"queues": [], "kinds": [], "limited": [], "limit": None, "lease": None}


@dataclass(slots=True)
class TickWork:
    """What one tick did so far."""

    now: float = 0.0
    refused: list[Refused] = field(default_factory=list)
    overruled: list[Overruled] = field(default_factory=list)
    started: list[Started] = field(default_factory=list)
    timed_out: list[str] = field(default_factory=list)
    moved: list[DownstreamRecord] = field(default_factory=list)
    wake_at: float | None = None
    outdated: bool = False
    needs_check: bool = False

    def read(self, finished: Sequence[Finished], lines: Sequence[Row]) -> None:
        """Take in the lines of an answer."""
        for line in lines:
            match line["what"]:
                case "claims":
                    self.started.append(unchecked(line))
                case "stale" | "late" as reason:
                    lease = finished[line["number"] - 1].lease
                    self.refused.append(Refused(lease, REFUSALS[reason]))
                case "failed" | "cancelled" as target:
                    lease = finished[line["number"] - 1].lease
                    self.overruled.append(Overruled(lease, OVERRULINGS[target]))
                case "timed_out":
                    self.timed_out.append(line["id"])
                case "wake":
                    self.wake_at = line["at"]
                case "now":
                    self.now = line["at"]
                case "outdated":
                    self.outdated = True
                case "check":
                    self.needs_check = True


class Ticker:
    """Does the ticks of one store."""

    def __init__(self, database: Database, lanes: Lanes) -> None:
        self._database = database
        self._lanes = lanes
        self._known = KnownDownstreams(database)
        self._seqs: dict[str, int] = {}
        self._served = 0
        self._needs_check = False

    async def tick(
        self,
        worker_id: str,
        finished: Sequence[Finished],
        request: ClaimRequest | None,
        now: float | None,
    ) -> TickResult:
        """Do one tick; its `mark` is for the caller to fill in."""
        # All workers lock jobs in this order, which is also that of the primary key.
        seqs = self._seqs
        finished = sorted(finished, key=lambda item: seqs.get(item.lease.job_id, 0))
        reports = downstreams.by_name(item.report for item in finished if item.report is not None)
        versions = await self._known.quiet_versions(reports) if reports else {}
        needs_check = self._needs_check and request is not None and request.limit > 0
        if versions is None or needs_check or len(finished) > PAGE:
            work = await self._tick_with_checks(worker_id, finished, request, now)
        else:
            work = await self._tick_at_once(worker_id, finished, request, now, versions)
            if work.outdated:
                self._known.forget(reports)
                work = await self._tick_with_checks(worker_id, finished, request, now)
            elif work.needs_check and request is not None:
                await self._claim_later(worker_id, request, now, work)
        if request is not None:
            self._needs_check = work.needs_check
        forget = self._seqs.pop
        for item in finished:
            forget(item.lease.job_id, None)
        return await self._result(worker_id, request, work)

    async def _tick_at_once(
        self,
        worker_id: str,
        finished: Sequence[Finished],
        request: ClaimRequest | None,
        now: float | None,
        versions: dict[str, int | None],
    ) -> TickWork:
        lines = await self._database.write(
            "tick",
            names=list(versions),
            versions=list(versions.values()),
            **self._report_columns(finished),
            **self._claim_columns(request),
            worker=worker_id,
            timeout=TIMED_OUT,
            now=now,
        )
        work = TickWork()
        work.read(finished, lines)
        return work

    def _report_columns(self, finished: Sequence[Finished]) -> dict[str, Any]:
        return report_columns(finished, self._seqs) if finished else NO_REPORTS

    def _claim_columns(self, request: ClaimRequest | None) -> dict[str, Any]:
        if request is None:
            return {**_NO_CLAIM, "after": 0}
        return {
            "queues": request.queues,
            "kinds": list(request.kinds),
            "limited": [kind for kind, limit in request.kinds.items() if limit is not None],
            "limit": request.limit,
            "lease": request.lease_seconds,
            "after": self._served,
        }

    async def _tick_with_checks(
        self,
        worker_id: str,
        finished: Sequence[Finished],
        request: ClaimRequest | None,
        now: float | None,
    ) -> TickWork:
        async def work_in(connection: Connection) -> TickWork:
            work = TickWork()
            for start in range(0, max(1, len(finished)), PAGE):
                some = finished[start : start + PAGE]
                lines = await rows(
                    connection,
                    "tick",
                    names=[],
                    versions=[],
                    **self._report_columns(some),
                    **_NO_CLAIM,
                    after=0,
                    worker=worker_id,
                    timeout=TIMED_OUT,
                    now=now,
                )
                work.read(some, lines)
            refused = {id(refused.lease) for refused in work.refused}
            reports = [
                item.report
                for item in finished
                if item.report is not None and id(item.lease) not in refused
            ]
            await self._claim_in(connection, worker_id, request, work, reports)
            return work

        work = await self._database.transaction(work_in)
        self._known.forget({item.report.downstream for item in finished if item.report is not None})
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
            later = TickWork(now=moment)
            await self._claim_in(connection, worker_id, request, later, ())
            return later

        try:
            later = await self._database.transaction(claim_in)
        except StoreUnavailable:
            work.wake_at = moment
            return
        work.started = later.started
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
    ) -> None:
        claim = CheckedClaim(connection, worker_id, request, work.now, self._served)
        await claim.run(downstreams.by_name(reports))
        work.started += claim.started
        work.timed_out += claim.timed_out
        work.moved += claim.moved
        work.wake_at = claim.wake_at
        work.needs_check = claim.needs_check

    async def _result(
        self, worker_id: str, request: ClaimRequest | None, work: TickWork
    ) -> TickResult:
        claims: list[Claim] = []
        if request is not None and work.started:
            expires_at = work.now + request.lease_seconds
            served: set[int] = set()
            for started in work.started:
                line = started.line
                served.update(line["lanes"])
                lanes = await self._lanes.by_id(served)
                claims += _claims(started, lanes, worker_id, work.now, expires_at)
                if len(self._seqs) > _SEQS_KEPT:  # of workers that never reported
                    self._seqs.clear()
                self._seqs.update(zip(line["ids"], line["seqs"], strict=True))
            # The last one in the round that began after the lane served before.
            self._served = max(served, key=lambda lane: (lane <= self._served, lane))
        return TickResult(
            claims=tuple(claims),
            refused=tuple(work.refused),
            overruled=tuple(work.overruled),
            moved=tuple(work.moved),
            timed_out=tuple(work.timed_out),
            wake_at=work.wake_at,
            mark=0,
            now=work.now,
        )


def _claims(
    started: Started, lanes: Mapping[int, Lane], worker_id: str, now: float, expires_at: float
) -> list[Claim]:
    (
        *_, ids, tokens, lane_ids, attempts, max_attempts, created_ats, deadlines, _, owners,
        metas, arguments,
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
