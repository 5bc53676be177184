"""Dead letters in groups, and as a list: counted before they are requeued or discarded."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from starlette.datastructures import FormData

from holdfast.http.admin import require_admin
from holdfast.http.api_errors import refusing_cursors
from holdfast.http.ops.access import FULL_ACCESS
from holdfast.http.ops.frame import Confirmation, Confirmed, Frame
from holdfast.http.ops.list_filter import ListFilter
from holdfast.http.ops.notes import counted_note
from holdfast.jobs.client.dead_letters import Requeued
from holdfast.jobs.operations_port import RunAction, RunState
from holdfast.jobs.query_port import DEAD_LETTER_WINDOW
from holdfast.jobs.views import DeadLetterGroup, JobFilter

_PAGE = 50
_MOST_GROUPS = 50
"""Groups on the page: the largest."""
_HOME = "/dead-letters"
_USUAL_RATE = 50.0
"""Jobs per second that a requeue proposes."""
_REASONS = {"twin": "a twin took their place", "gone": "no longer dead letters"}
_RUN_WORDS = {
    RunState.RUNNING: "is under way.",
    RunState.FINISHED: "has finished.",
    RunState.STOPPED: "was stopped. What it had done stays done; begin it again to go on.",
    RunState.FAILED: "ended half-way, because its server stopped or met an error. What it had done "
    "stays done; begin it again to go on.",
}
_ABORT = "The run can be stopped at any time; what was requeued by then stays in the queue."
_DISCARD = "They stay failed and are no longer dead letters. This cannot be undone."


class Selected(StrEnum):
    """What may be done to selected dead letters."""

    REQUEUE = "requeue"
    DISCARD = "discard"


def add_dead_letter_pages(router: APIRouter, frame: Frame) -> None:
    """Add the page of dead letters, and what can be done with them."""
    _add_page(router, frame)
    _add_questions(router, frame)
    _add_runs(router, frame)
    _add_changes_of_selected(router, frame)


def _add_page(router: APIRouter, frame: Frame) -> None:
    letters, runs = frame.engine.dead_letters, frame.state.runs

    @router.get(_HOME)
    async def show(request: Request) -> Response:
        search = ListFilter.of(request.query_params)
        now = await frame.engine.store.ping()
        with refusing_cursors():
            found = await letters.search(
                search.as_filter(now), cursor=search.cursor or None, limit=_PAGE
            )
        groups = _groups_of(await letters.groups(), search)
        return await frame.page(
            request,
            "dead_letters.html",
            now=now,
            search=search,
            groups=groups[:_MOST_GROUPS],
            more_groups=len(groups) > _MOST_GROUPS,
            letters=found.letters,
            total=(await frame.engine.stats()).dead_letters,
            runs=await runs.list(limit=1),
            run_words=_RUN_WORDS,
            older=search.path(_HOME, cursor=found.next_cursor) if found.next_cursor else "",
            window=DEAD_LETTER_WINDOW,
            searched_from=found.searched_from,
            newest=search.path(_HOME) if search.cursor else "",
        )


def _add_questions(router: APIRouter, frame: Frame) -> None:
    letters = frame.engine.dead_letters

    @router.get(f"{_HOME}/requeue", dependencies=FULL_ACCESS)
    async def ask_to_requeue(request: Request) -> Response:
        search = ListFilter.of(request.query_params)
        counted = await letters.requeue(await _where(frame, search), dry_run=True)
        return frame.confirm(
            request,
            Confirmation(
                title=f"Requeue {_jobs(counted.requeued)}?",
                words=f"Their attempts are counted from one. {_ABORT}",
                action=f"{_HOME}/requeue",
                label="Requeue",
                fields=search.given(),
                back=search.path(_HOME),
                facts=_counts(counted),
                rate=_USUAL_RATE,
                destroys=False,
            ),
        )

    @router.get(f"{_HOME}/discard", dependencies=FULL_ACCESS)
    async def ask_to_discard(request: Request) -> Response:
        search = ListFilter.of(request.query_params)
        matching = await letters.count(await _where(frame, search))
        return frame.confirm(
            request,
            Confirmation(
                title=f"Discard {_jobs(matching)}?",
                words=_DISCARD,
                action=f"{_HOME}/discard",
                label="Discard",
                fields=search.given(),
                back=search.path(_HOME),
            ),
        )


def _add_runs(router: APIRouter, frame: Frame) -> None:
    runs = frame.state.runs

    @router.post(f"{_HOME}/requeue", dependencies=FULL_ACCESS)
    async def requeue(
        request: Request, rate: Annotated[float, Form(ge=0.1, le=10_000)] = _USUAL_RATE
    ) -> Response:
        return await begin(request, RunAction.REQUEUE, rate)

    @router.post(f"{_HOME}/stop", dependencies=FULL_ACCESS)
    async def stop(request: Request) -> Response:
        await runs.stop()
        await frame.record(request, "dead-letters.stop")
        return frame.back(request, _HOME, "run-stopped")

    @router.post(f"{_HOME}/discard", dependencies=FULL_ACCESS)
    async def discard(request: Request) -> Response:
        return await begin(request, RunAction.DISCARD, None)

    async def begin(request: Request, action: RunAction, rate: float | None) -> Response:
        search, who = ListFilter.of(_texts(await request.form())), require_admin(request).name
        run = await runs.begin(action, await _where(frame, search), rate=rate, who=who)
        await frame.record(
            request,
            f"dead-letters.{action}",
            filter=search.given(),
            run=run.id,
            total=run.total,
            rate=rate,
        )
        return frame.back(request, _HOME, "run-begun")


def _add_changes_of_selected(router: APIRouter, frame: Frame) -> None:
    letters = frame.engine.dead_letters

    @router.post(f"{_HOME}/selected/{{move}}", dependencies=FULL_ACCESS)
    async def change_selected(
        request: Request,
        move: Selected,
        ids: Annotated[list[str] | None, Form(alias="id", max_length=_PAGE)] = None,
        confirmed: Confirmed = "",
    ) -> Response:
        if not ids:
            return frame.back(request, _HOME, "nothing-selected")
        if move is Selected.DISCARD and not confirmed:
            return frame.confirm(
                request,
                Confirmation(
                    title=f"Discard {_jobs(len(ids))}?",
                    words=_DISCARD,
                    action=f"{_HOME}/selected/discard",
                    label="Discard",
                    ids=tuple(ids),
                    back=_HOME,
                ),
            )
        change = letters.requeue_now if move is Selected.REQUEUE else letters.discard
        chosen, done = tuple(dict.fromkeys(ids)), 0
        for each in chosen:
            if "\0" not in each and await change(each):
                done += 1
                await frame.record(request, f"dead-letters.{move}", each)
        return frame.back(request, _HOME, counted_note(move, done, len(chosen) - done))


def _groups_of(groups: Iterable[DeadLetterGroup], search: ListFilter) -> list[DeadLetterGroup]:
    """Return the groups of the kind and the code that the form names."""
    return [
        group
        for group in groups
        if search.kind in ("", group.kind) and search.code in ("", group.code)
    ]


async def _where(frame: Frame, search: ListFilter) -> JobFilter:
    return search.as_filter(await frame.engine.store.ping())


def _texts(form: FormData) -> Mapping[str, str]:
    return {key: value for key, value in form.items() if isinstance(value, str)}


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def _counts(counted: Requeued) -> dict[str, str]:
    facts = {"Matching": f"{counted.matched:,}", "Will be requeued": f"{counted.requeued:,}"}
    for reason, count in counted.skipped.items():
        facts[f"Skipped: {_REASONS.get(reason, reason)}"] = f"{count:,}"
    return facts
