"""What a store does to read jobs, their history and the counters."""

from typing import Protocol

from holdfast.jobs.history import Attempt, JobEvent, LateResult
from holdfast.jobs.model import Job
from holdfast.jobs.views import (
    EVERY_JOB,
    DeadLetter,
    DeadLetterGroup,
    DeadLetterSearch,
    JobFilter,
    JobSearch,
    Page,
    Stats,
)

SEARCH_WINDOW = 5_000
"""Jobs that a search looks at by default."""
DEAD_LETTER_WINDOW = 2_000
"""Dead letters that a search looks at. They lie apart from each other, so each costs more."""


class QueryStore(Protocol):
    """Read jobs. A read sees every write that was acknowledged before it began."""

    async def get(self, job_id: str, *, now: float | None = None) -> Job | None:
        """Return one job with its arguments."""
        ...

    async def list_jobs(
        self,
        where: JobFilter = EVERY_JOB,
        *,
        cursor: str | None = None,
        limit: int = 50,
        now: float | None = None,
    ) -> Page:
        """Return jobs without arguments, newest first; following the cursors lists no job twice.

        Raises:
            ValueError: `cursor` is not valid.
        """
        ...

    async def search_jobs(
        self,
        where: JobFilter = EVERY_JOB,
        *,
        cursor: str | None = None,
        limit: int = 50,
        window: int = SEARCH_WINDOW,
        now: float | None = None,
    ) -> JobSearch:
        """Return jobs as `list_jobs` does, looking at the newest `window` jobs only.

        Those are the newest of an index that serves `where`, so the cost does not grow with the
        number of jobs. The cursor goes on from where the search has stopped.

        Raises:
            ValueError: `cursor` is not valid.
        """
        ...

    async def events(self, job_id: str) -> tuple[JobEvent, ...]:
        """Return a job's history, oldest first."""
        ...

    async def attempts(self, job_id: str) -> tuple[Attempt, ...]:
        """Return a job's attempts, oldest first, including a running one."""
        ...

    async def late_results(self, job_id: str) -> tuple[LateResult, ...]:
        """Return the results that arrived after the deadline, oldest first."""
        ...

    async def changes_since(
        self, sequence: int, *, owner: str | None = None, limit: int = 500
    ) -> tuple[JobEvent, ...]:
        """Return events after `sequence`, in order; only those of `owner` if given.

        A reader that continues from the last event's sequence misses nothing: an event appears
        only once every transaction that may write a lower sequence has ended.
        """
        ...

    async def last_sequence(self) -> int:
        """Return the sequence of the newest event, to read changes from now on."""
        ...

    async def wait_for_changes(self, sequence: int, timeout: float) -> bool:
        """Wait up to `timeout` seconds until there may be events after `sequence`. A hint."""
        ...

    async def dead_letters(
        self,
        where: JobFilter = EVERY_JOB,
        *,
        cursor: str | None = None,
        limit: int = 50,
    ) -> tuple[tuple[DeadLetter, ...], str | None]:
        """Return dead letters, newest failure first, and the cursor of the next page.

        Raises:
            ValueError: `cursor` is not valid.
        """
        ...

    async def search_dead_letters(
        self,
        where: JobFilter = EVERY_JOB,
        *,
        cursor: str | None = None,
        limit: int = 50,
        window: int = DEAD_LETTER_WINDOW,
    ) -> DeadLetterSearch:
        """Return dead letters as `dead_letters` does, looking at the newest `window` only.

        All of one group are looked at, which an index leads to. The cursor goes on from where the
        search has stopped.

        Raises:
            ValueError: `cursor` is not valid.
        """
        ...

    async def dead_letter_groups(self, *, limit: int = 1000) -> tuple[DeadLetterGroup, ...]:
        """Return the dead letters grouped by kind, code and normalised message.

        The `limit` largest groups come, the largest first.
        """
        ...

    async def stats(self) -> Stats:
        """Return the maintained counters."""
        ...
