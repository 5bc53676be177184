"""The rows of one owner: filtered and paged by the store, counted, with what is held."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from holdfast.errors import HoldfastError
from holdfast.http.bulk import has_name
from holdfast.http.pages.job_rows import is_held, row_of, shown_name
from holdfast.http.pages.renderer import Renderer
from holdfast.http.rendered import RenderedRow
from holdfast.jobs.downstreams.record import HoldMode
from holdfast.jobs.model import Job, JobStatus
from holdfast.jobs.views import JobFilter, Page
from holdfast.resilience.breaker.transitions import CircuitState

PAGE_SIZE = 30
COUNTED = 200
"""How many of an owner's newest jobs are counted for the filter; the page shows this limit."""

_MOST_BATCHES = 10
"""How often a page reads on, `COUNTED` jobs at a time, for names that match a filter."""
_LONGEST_TEXT = 200

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
    """Which rows: a choice of the filter, a part of their names, and a cursor."""

    status: str = ALL
    cursor: str | None = None
    text: str = ""

    @classmethod
    def of(cls, status: str | None, cursor: str | None, text: str | None = None) -> "View":
        """Return the view that an address asks for; invalid values are ignored."""
        chosen = status if status in FILTERS else ALL
        typed = (text or "").strip()[:_LONGEST_TEXT]
        return cls(chosen or ALL, cursor if cursor and len(cursor) <= 500 else None, typed)

    @property
    def is_filtered(self) -> bool:
        """Whether rows are left out."""
        return bool(self.status or self.text)

    def path(self, **more: str) -> str:
        """Return the address of these rows."""
        fields = {
            "status": self.status, "q": self.text, "cursor": self.cursor or "", **more,
        }  # fmt: skip
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
        since: when its breaker opened, in epoch seconds; None where a person holds it.
        next_check: when it is called again at the latest; a health check may find it back before.
    """

    name: str
    shown: str
    trying: bool
    failing: bool = False
    since: float | None = None
    next_check: float | None = None

    @property
    def holds(self) -> bool:
        """Whether its jobs wait."""
        return not (self.trying or self.failing)


@dataclass(frozen=True, slots=True)
class JobList:
    """What the front page shows of an owner's jobs. `now` is the store's clock, epoch seconds.

    Args:
        summary: how many there are, and what has become of them.
        ready: how many of those counted have a result to download.
        failed: how many of those counted can be retried.
        active: how many of those counted are not finished.
        matching: how many of those counted the view shows, on all its pages.
        total: how many jobs were counted.
        is_all: no job of the owner's was left out of the counts.
        waiting: how many of those counted wait for a downstream that is held.
    """

    view: View
    rows: list[RenderedRow]
    choices: list[Choice]
    summary: str
    ready: int
    failed: int
    active: int
    matching: int
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
    named = [job for job in newest.jobs if has_name(renderer.state, job, view.text)]
    shown = [job for job in named if _is_in(job, view)]
    facts = [renderer.state.facts(job) for job in shown]
    return JobList(
        view=view,
        rows=rows_of(renderer, page.jobs, now, held),
        choices=_choices(renderer, named, view),
        summary=_summary(renderer, newest, named, view),
        ready=sum(each.can_download for each in facts),
        failed=sum(each.can_retry for each in facts),
        active=sum(not job.status.finished for job in shown),
        matching=len(shown),
        total=len(newest.jobs),
        is_all=newest.next_cursor is None,
        waiting=sum(is_held(job, now, paused=job.downstream in paused) for job in newest.jobs),
        held=[each for each in held if renderer.calls(each.name)],
        newer=View(view.status, text=view.text).path() if view.cursor else None,
        older=(View(view.status, page.next_cursor, view.text).path() if page.next_cursor else None),
        now=now,
    )


def _is_in(job: Job, view: View) -> bool:
    return not view.status or job.status in FILTERS[view.status]


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
            circuit = record.circuit
            found.append(
                Held(
                    record.name,
                    shown_name(record.name),
                    trying,
                    failing,
                    since=None if circuit.held else circuit.opened_at,
                    next_check=None if circuit.held else circuit.open_until,
                )
            )
    return found


def _paused(held: Iterable[Held]) -> frozenset[str | None]:
    return frozenset(each.name for each in held if each.holds)


async def _read_page(renderer: Renderer, owner: str, view: View) -> tuple[View, Page]:
    kinds = renderer.listed_kinds or ()
    where = JobFilter(owner=owner, statuses=FILTERS[view.status], kinds=kinds)
    try:
        return view, await _matching_page(renderer, where, view)
    except HoldfastError:
        raise
    except ValueError:
        # A cursor of another store, or none at all: the first page is always right.
        view = View(view.status, text=view.text)
        return view, await _matching_page(renderer, where, view)


async def _matching_page(renderer: Renderer, where: JobFilter, view: View) -> Page:
    """Return a page of the jobs whose names match; their apps name them, so no store can."""
    engine, state = renderer.state.engine, renderer.state
    if not view.text:
        return await engine.list(where, cursor=view.cursor, limit=PAGE_SIZE)
    found: list[Job] = []
    cursor = view.cursor
    for _ in range(_MOST_BATCHES):
        batch = await engine.list(where, cursor=cursor, limit=COUNTED)
        matches = [n for n, job in enumerate(batch.jobs) if has_name(state, job, view.text)]
        room = PAGE_SIZE - len(found)
        found += [batch.jobs[n] for n in matches[:room]]
        if len(matches) > room:
            # The next page begins after the last row of this one, in the middle of the batch.
            last = await engine.list(where, cursor=cursor, limit=matches[room - 1] + 1)
            return Page(tuple(found), last.next_cursor)
        cursor = batch.next_cursor
        if cursor is None or len(found) == PAGE_SIZE:
            break
    return Page(tuple(found), cursor)


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
            path=View(key, text=view.text).path(),
            chosen=key == view.status,
        )
        for key, statuses in FILTERS.items()
    ]


def _summary(renderer: Renderer, newest: Page, named: Sequence[Job], view: View) -> str:
    """Return how many jobs there are and what has become of them: 60 files · 58 done · 2 failed."""
    counts = Counter(job.status for job in named)
    active = sum(counts[status] for status in FILTERS["active"])
    parts = [
        (active, "in progress"),
        (counts[JobStatus.COMPLETE], "done"),
        (counts[JobStatus.FAILED], "failed"),
        (counts[JobStatus.CANCELLED], "cancelled"),
    ]
    total = renderer.count(len(newest.jobs))
    if newest.next_cursor is not None:
        total = f"newest {total}"
    if view.text:
        total = f"{len(named)} of {total}"
    return " · ".join([total, *(f"{number} {words}" for number, words in parts if number)])
