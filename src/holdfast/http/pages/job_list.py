"""The rows of one owner: filtered and paged by the store, counted, with what is held."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlencode

from holdfast.errors import HoldfastError
from holdfast.http.pages.job_rows import is_held, row_of, shown_name
from holdfast.http.pages.renderer import Renderer
from holdfast.http.rendered import RenderedRow
from holdfast.jobs.downstreams.record import HoldMode
from holdfast.jobs.model import Job, JobStatus
from holdfast.jobs.views import JobFilter, Page
from holdfast.resilience.breaker.transitions import CircuitState

PAGE_SIZE = 25
COUNTED = 200
"""How many of an owner's newest jobs are counted for the filter; the page shows this limit."""

ALL = ""
FILTERS = {
    ALL: (),
    "active": (JobStatus.UPLOADED, JobStatus.QUEUED, JobStatus.PROCESSING),
    "complete": (JobStatus.COMPLETE,),
    "failed": (JobStatus.FAILED,),
    "cancelled": (JobStatus.CANCELLED,),
}
"""The choices of the filter, as they stand in the address."""


@dataclass(frozen=True, slots=True)
class View:
    """Which rows: a choice of the filter, and a cursor."""

    status: str = ALL
    cursor: str | None = None

    @classmethod
    def of(cls, status: str | None, cursor: str | None) -> "View":
        """Return the view that an address asks for; invalid values are ignored."""
        chosen = status if status in FILTERS else ALL
        return cls(chosen or ALL, cursor if cursor and len(cursor) <= 500 else None)

    def path(self, **more: str) -> str:
        """Return the address of these rows."""
        fields = {"status": self.status, "cursor": self.cursor or "", **more}
        query = urlencode({name: value for name, value in fields.items() if value})
        return f"/?{query}" if query else "/"


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice of the filter."""

    key: str
    label: str
    count: int
    path: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class Held:
    """A downstream that is not called at the moment, or is tried again.

    Args:
        trying: it is tried again.
        failing: its jobs are not held but failed at once.
    """

    name: str
    shown: str
    trying: bool
    failing: bool = False

    @property
    def holds(self) -> bool:
        """Whether its jobs wait."""
        return not (self.trying or self.failing)


@dataclass(frozen=True, slots=True)
class JobList:
    """What the front page shows of an owner's jobs. `now` is the store's clock, epoch seconds.

    Args:
        total: how many jobs were counted.
        is_all: no job of the owner's was left out of the counts.
        waiting: how many of those counted wait for a downstream that is held.
    """

    view: View
    rows: list[RenderedRow]
    choices: list[Choice]
    total: int
    is_all: bool
    waiting: int
    held: list[Held]
    newer: str | None
    older: str | None
    now: float


async def read_job_list(renderer: Renderer, owner: str, view: View) -> JobList:
    """Read the rows of `owner` that `view` asks for."""
    engine = renderer.state.engine
    now = await engine.store.ping()
    newest, (view, page), held = await asyncio.gather(
        engine.list(JobFilter(owner=owner, kinds=renderer.listed_kinds or ()), limit=COUNTED),
        _read_page(renderer, owner, view),
        read_held(renderer, now),
    )
    paused = _paused(held)
    return JobList(
        view=view,
        rows=rows_of(renderer, page.jobs, now, held),
        choices=_choices(renderer, newest.jobs, view),
        total=len(newest.jobs),
        is_all=newest.next_cursor is None,
        waiting=sum(is_held(job, now, paused=job.downstream in paused) for job in newest.jobs),
        held=[each for each in held if renderer.calls(each.name)],
        newer=View(view.status).path() if view.cursor else None,
        older=View(view.status, page.next_cursor).path() if page.next_cursor else None,
        now=now,
    )


def rows_of(
    renderer: Renderer, jobs: Iterable[Job], now: float, held: Iterable[Held]
) -> list[RenderedRow]:
    """Return `jobs` as rows; those that wait for another attempt say why."""
    paused = _paused(held)
    return [_row(renderer, job, now, paused=job.downstream in paused) for job in jobs]


async def read_held(renderer: Renderer, now: float) -> list[Held]:
    """Return the downstreams that are held, failing fast or on trial."""
    found = []
    for record in await renderer.state.engine.downstreams.troubled():
        state, settings = record.state_at(now), record.settings
        trying = state is CircuitState.HALF_OPEN
        fails_fast = settings.breaker is not None and settings.mode is HoldMode.FAIL_FAST
        failing = fails_fast and state is CircuitState.OPEN and not record.holds_at(now)
        if trying or failing or record.holds_at(now):
            found.append(Held(record.name, shown_name(record.name), trying, failing))
    return found


def _paused(held: Iterable[Held]) -> frozenset[str | None]:
    return frozenset(each.name for each in held if each.holds)


async def _read_page(renderer: Renderer, owner: str, view: View) -> tuple[View, Page]:
    kinds = renderer.listed_kinds or ()
    where = JobFilter(owner=owner, statuses=FILTERS[view.status], kinds=kinds)
    engine = renderer.state.engine
    try:
        return view, await engine.list(where, cursor=view.cursor, limit=PAGE_SIZE)
    except HoldfastError:
        raise
    except ValueError:
        # A cursor of another store, or none at all: the first page is always right.
        return View(view.status), await engine.list(where, limit=PAGE_SIZE)


def _row(renderer: Renderer, job: Job, now: float, *, paused: bool) -> RenderedRow:
    app = renderer.state.app_of(job)
    return row_of(
        job,
        renderer.state.facts(job),
        now,
        words=renderer.words(job),
        declared=() if app is None else app.job_facts,
        paused=paused,
    )


def _choices(renderer: Renderer, jobs: Iterable[Job], view: View) -> list[Choice]:
    counts = Counter(job.status for job in jobs)
    labels = {
        ALL: "All",
        "active": "In progress",
        "complete": renderer.word_for(JobStatus.COMPLETE),
        "failed": "Failed",
        "cancelled": "Cancelled",
    }
    return [
        Choice(
            key=key,
            label=labels[key],
            count=sum(counts[status] for status in statuses) if key else counts.total(),
            path=View(key).path(),
            chosen=key == view.status,
        )
        for key, statuses in FILTERS.items()
    ]
