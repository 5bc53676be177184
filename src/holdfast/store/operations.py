"""What operators did and look at: both stores have statements of the same names and columns."""

import json

from holdfast.jobs.model import JobStatus
from holdfast.jobs.operations_port import (
    AuditEntry,
    AuditPage,
    ChooseMarks,
    CounterMark,
    DeadLetterRun,
    FinishedJob,
    RunAction,
    RunState,
    WorkerLoad,
)
from holdfast.store import cursors
from holdfast.store.row_mapping import Row
from holdfast.store.statements import StatementCall, Statements

_EVENTS_OF_JOBS = 20_000
"""Newest events, or pages of events, among which finished jobs are looked for: many, because a
batch of new jobs is as many events."""
_EVENTS_OF_WORKERS = 5_000
"""Newest events, or pages of events, that the load of workers is measured by."""


_RUNS_KEPT = 90 * 86_400.0
"""Seconds after their beginning until runs are forgotten."""


def audit_change(entry: AuditEntry | None) -> list[StatementCall]:
    """Return the statement that appends `entry` to the audit log; none without an entry."""
    if entry is None:
        return []
    given = {
        "now": entry.at, "who": entry.who, "role": entry.role, "action": entry.action,
        "target": entry.target, "detail": json.dumps(dict(entry.detail)),
    }  # fmt: skip
    return [("audit_add", given)]


class Operations(Statements):
    """A store's part for operators, but for how it runs a statement; see `OperationsStore`."""

    async def add_audit(self, entry: AuditEntry) -> None:
        """Append `entry` to the audit log."""
        await self._changed_together(*audit_change(entry))

    async def audit(self, *, cursor: str | None = None, limit: int = 50) -> AuditPage:
        """Return the audit log, newest entries first."""
        (before,) = cursors.decode(cursor, 1) if cursor is not None else (cursors.NEWEST,)
        rows = await self._rows("audit_list", before=int(before), limit=limit + 1)
        shown = rows[:limit]
        entries = tuple(map(_entry, shown))
        more = len(rows) > limit and len(shown) > 0
        return AuditPage(entries, cursors.encode(shown[-1][0]) if more else None)

    async def trim_audit(
        self, *, max_age: float, max_count: int, limit: int = 500, now: float | None = None
    ) -> int:
        """Delete the oldest entries of the audit log."""
        given = {"max_age": max_age, "max_count": max_count, "limit": limit}
        return len(await self._changed_rows("audit_trim", now, **given))

    async def begin_run(self, run: DeadLetterRun, *, stale_after: float) -> bool:
        """Store a new run unless another one is running."""
        await self._changed_rows("run_give_up", run.started_at, stale_after=stale_after)
        await self._changed_rows("run_trim", run.started_at, max_age=_RUNS_KEPT)
        begun = await self._changed_rows(
            "run_begin", run.started_at, id=run.id, action=str(run.action),
            filter=json.dumps(dict(run.filter)), who=run.who, rate=run.rate, total=run.total,
        )  # fmt: skip
        return bool(begun)

    async def update_run(self, run: DeadLetterRun, *, now: float | None = None) -> bool:
        """Store how far a run is."""
        found = await self._changed_rows(
            "run_update", now, id=run.id, state=str(run.state), matched=run.matched,
            done=run.done, skipped=json.dumps(dict(run.skipped)),
        )  # fmt: skip
        return bool(found) and not found[0][0]

    async def request_run_stop(self) -> bool:
        """Ask the run that is running to stop."""
        return bool(await self._changed_rows("run_request_stop", None))

    async def runs(self, *, limit: int = 20) -> tuple[DeadLetterRun, ...]:
        """Return runs, the one that began last first."""
        return tuple(map(_run, await self._rows("run_list", limit=limit)))

    async def add_mark(self, mark: CounterMark, *, keep_from: float) -> None:
        """Store `mark`, and delete old ones."""
        counters = json.dumps([mark.outcomes, dict(mark.ready)])
        await self._changed_rows("mark_add", mark.at, counters=counters)
        await self._changed_rows("mark_trim", None, keep_from=keep_from)

    async def marks(
        self, since: float, *, choose: ChooseMarks | None = None
    ) -> tuple[CounterMark, ...]:
        """Return the marks from `since` on, or those that are chosen of them, oldest first."""
        rows = await self._rows("mark_list", since=since)
        if choose is not None:
            # A day has 300 marks: to read them is quick, to decode them all is not.
            chosen = choose([at for at, _ in rows])
            rows = [row for row in rows if row[0] in chosen]
        return tuple(_mark(at, text) for at, text in rows)

    async def finished_jobs(self, *, limit: int = 1000) -> tuple[FinishedJob, ...]:
        """Return the jobs that ended last and have run."""
        rows = await self._rows("read_finished_jobs", events=_EVENTS_OF_JOBS, limit=limit)
        return tuple(
            FinishedJob(kind, downstream, JobStatus(status), *rest)
            for kind, downstream, status, *rest in rows
        )

    async def worker_loads(self, since: float) -> tuple[WorkerLoad, ...]:
        """Return what workers have done of late."""
        rows = await self._rows("read_worker_loads", events=_EVENTS_OF_WORKERS, since=since)
        return tuple(WorkerLoad(*row) for row in rows)


def _entry(row: Row) -> AuditEntry:
    _, at, who, role, action, target, detail = row
    return AuditEntry(at, who, role, action, target, json.loads(detail))


def _run(row: Row) -> DeadLetterRun:
    run_id, action, chosen, who, rate, total, started, state, matched, done, skipped, *rest = row
    stop_requested, updated_at = rest
    return DeadLetterRun(
        run_id, RunAction(action), json.loads(chosen), who, rate, total, started, RunState(state),
        matched, done, json.loads(skipped), bool(stop_requested), updated_at,
    )  # fmt: skip


def _mark(at: float, text: str) -> CounterMark:
    outcomes, ready = json.loads(text)
    return CounterMark(at, tuple((*map(str, each[:2]), *each[2:]) for each in outcomes), ready)
