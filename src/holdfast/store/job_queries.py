"""Reading jobs and downstreams: both stores have statements of the same names and columns."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from holdfast.jobs.downstreams.record import DownstreamRecord
from holdfast.jobs.history import Attempt, JobEvent, LateResult
from holdfast.jobs.model import Job, Lease
from holdfast.jobs.periodic_port import ScheduleRecord
from holdfast.jobs.query_port import DEAD_LETTER_WINDOW, SEARCH_WINDOW
from holdfast.jobs.views import (
    EVERY_JOB,
    DeadLetter,
    DeadLetterGroup,
    DeadLetterSearch,
    JobFilter,
    JobSearch,
    Page,
)
from holdfast.store import cursors
from holdfast.store.row_mapping import (
    Row,
    attempt_from,
    dead_letters_from,
    event_from,
    filter_parameters,
    groups_from,
    job_from,
    page_from,
    record_from,
    schedule_from,
)


class JobQueries(ABC):
    """A store's queries, but for how it runs a statement; see `holdfast.jobs.store_port`."""

    @abstractmethod
    async def _rows(self, query: str, **parameters: Any) -> Sequence[Row]:
        """Run the named `query` and return its rows."""

    @abstractmethod
    def _list_query(self, where: JobFilter) -> str:
        """Return the name of the query whose index leaves the fewest jobs for `where`."""

    @abstractmethod
    def _array(self, values: Sequence[str]) -> Any:
        """Return `values` as a parameter."""

    @abstractmethod
    def _now(self, now: float | None) -> float | None:
        """Return the time to ask for; None lets the database use its own."""

    async def get(self, job_id: str, *, now: float | None = None) -> Job | None:
        """Return one job with its arguments."""
        rows = await self._rows("read_job", id=job_id, now=self._now(now))
        return job_from(rows[0][:-1], rows[0][-1]) if rows else None

    async def list_jobs(
        self,
        where: JobFilter = EVERY_JOB,
        *,
        cursor: str | None = None,
        limit: int = 50,
        now: float | None = None,
    ) -> Page:
        """Return jobs, newest first."""
        return page_from(await self._listed(where, _before(cursor), 0, limit, now), limit)

    async def search_jobs(
        self,
        where: JobFilter = EVERY_JOB,
        *,
        cursor: str | None = None,
        limit: int = 50,
        window: int = SEARCH_WINDOW,
        now: float | None = None,
    ) -> JobSearch:
        """Return jobs, newest first, of the newest `window` ones."""
        before = _before(cursor)
        floor = await self._floor(where, before, window)
        seq, searched_from = floor or (0, None)
        page = page_from(await self._listed(where, before, seq, limit, now), limit)
        if page.next_cursor is not None or floor is None:
            return JobSearch(page.jobs, page.next_cursor)
        return JobSearch(page.jobs, cursors.encode(seq), False, searched_from)

    async def _floor(self, where: JobFilter, before: int, window: int) -> Row | None:
        """Return the seq and the time of the last job to look at; None to look at all."""
        if where.id is not None:
            return None
        given: dict[str, Any] = {"before": before, "window": window}
        query = self._list_query(where)
        if query.endswith("_of_owner"):
            given["owner"] = where.owner
        elif query.endswith("_of_kind"):
            given["kinds"] = self._array(where.kinds)
        found = await self._rows(f"floor_{query}", **given)
        return found[0] if found else None

    async def _listed(
        self, where: JobFilter, before: int, floor: int, limit: int, now: float | None
    ) -> Sequence[Row]:
        return await self._rows(
            self._list_query(where),
            **filter_parameters(where, self._array, floor),
            before=before,
            limit=limit + 1,
            now=self._now(now),
        )

    async def dead_letters(
        self, where: JobFilter = EVERY_JOB, *, cursor: str | None = None, limit: int = 50
    ) -> tuple[tuple[DeadLetter, ...], str | None]:
        """Return dead letters, newest failure first."""
        rows = await self._dead_letters(where, _before_failure(cursor), (0.0, 0), limit)
        return dead_letters_from(rows, limit)

    async def search_dead_letters(
        self,
        where: JobFilter = EVERY_JOB,
        *,
        cursor: str | None = None,
        limit: int = 50,
        window: int = DEAD_LETTER_WINDOW,
    ) -> DeadLetterSearch:
        """Return dead letters, newest failure first, of the newest `window` ones."""
        before, floor = _before_failure(cursor), None
        if where != EVERY_JOB and where.id is None and not _is_one_group(where):
            before_at, before_seq = before
            found = await self._rows(
                "floor_read_dead_letters", before_at=before_at, before=before_seq, window=window
            )
            floor = (found[0][0], found[0][1]) if found else None
        rows = await self._dead_letters(where, before, floor or (0.0, 0), limit)
        letters, following = dead_letters_from(rows, limit)
        if following is not None or floor is None:
            return DeadLetterSearch(letters, following)
        return DeadLetterSearch(letters, cursors.encode(*floor), False, floor[0])

    async def _dead_letters(
        self, where: JobFilter, before: tuple[float, int], floor: tuple[float, int], limit: int
    ) -> Sequence[Row]:
        """Return one row more than `limit`; `before` and `floor` are times of failure and seqs."""
        given = filter_parameters(where, self._array)
        query = "read_dead_letters"
        if _is_one_group(where):
            query = "read_dead_letters_of_group"
            given["kind"] = where.kinds[0]
        else:
            given["floor_at"], given["floor_seq"] = floor
        return await self._rows(
            query,
            **given,
            before_at=before[0],
            before=before[1],
            limit=limit + 1,
            now=self._now(None),
        )

    async def dead_letter_groups(self, *, limit: int = 1000) -> tuple[DeadLetterGroup, ...]:
        """Return the dead letters by group."""
        return groups_from(await self._rows("read_dead_letter_groups", limit=limit))

    async def leases(self, worker_id: str) -> tuple[Lease, ...]:
        """Return the leases of running jobs in a worker's name."""
        rows = await self._rows("worker_leases", worker=worker_id)
        return tuple(Lease(job_id, token, worker_id, at) for job_id, token, at in rows)

    async def events(self, job_id: str) -> tuple[JobEvent, ...]:
        """Return a job's history."""
        return tuple(map(event_from, await self._rows("read_events", id=job_id)))

    async def attempts(self, job_id: str) -> tuple[Attempt, ...]:
        """Return a job's attempts, a running one last."""
        rows = await self._rows("read_attempts", id=job_id)
        return tuple(attempt_from(job_id, row) for row in rows)

    async def late_results(self, job_id: str) -> tuple[LateResult, ...]:
        """Return the results that arrived after the deadline."""
        rows = await self._rows("read_late_results", id=job_id)
        return tuple(LateResult(job_id, *row) for row in rows)

    async def changes_since(
        self, sequence: int, *, owner: str | None = None, limit: int = 500
    ) -> tuple[JobEvent, ...]:
        """Return events after `sequence`."""
        rows = await self._rows("read_changes", sequence=sequence, owner=owner, limit=limit)
        return tuple(map(event_from, rows))

    async def last_sequence(self) -> int:
        """Return the sequence to start a stream of changes from."""
        return int((await self._rows("read_last_sequence"))[0][0])

    async def downstreams(self) -> tuple[DownstreamRecord, ...]:
        """Return all records, by name."""
        return tuple(map(record_from, await self._rows("downstream_list")))

    async def troubled_downstreams(self) -> tuple[DownstreamRecord, ...]:
        """Return the records of breakers that are open or half open, by name."""
        return tuple(map(record_from, await self._rows("downstream_troubled")))

    async def downstream(self, name: str) -> DownstreamRecord | None:
        """Return one record."""
        rows = await self._rows("downstream_get", name=name)
        return record_from(rows[0]) if rows else None

    async def schedules(self) -> tuple[ScheduleRecord, ...]:
        """Return the schedules of periodic jobs, by name."""
        return tuple(map(schedule_from, await self._rows("schedule_list")))


def _is_one_group(where: JobFilter) -> bool:
    """Say whether an index leads to what matches; otherwise dead letters are looked at in turn."""
    named = where.error_code is not None and where.error_group is not None
    return named and len(where.kinds) == 1


def _before_failure(cursor: str | None) -> tuple[float, int]:
    start = (1e300, cursors.NEWEST)
    before_at, before = start if cursor is None else cursors.decode(cursor, 2)
    return float(before_at), int(before)


def _before(cursor: str | None) -> int:
    (before,) = cursors.decode(cursor, 1) if cursor is not None else (cursors.NEWEST,)
    return int(before)
