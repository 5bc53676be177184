"""The grading app: its jobs, and what it adds to a server."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from random import Random
from typing import Any, cast

from fastapi import APIRouter

from holdfast import (
    App,
    AppTables,
    Clock,
    Engine,
    Job,
    JobContext,
    Retention,
    RetryPolicy,
    SystemClock,
    presets,
)
from holdfast.fetch import FETCH_ERRORS, Fetcher, FetchLimits
from holdfast.files import ArtifactStore, delete_unreferenced
from holdfast.http import AppPages, JobFact, JobFacts, ServedApp, ServerState, meta_of
from holdfast_grading.callback_consumer import consuming
from holdfast_grading.celery_calls import QUEUES
from holdfast_grading.deadlines import expire
from holdfast_grading.embedded import GRADING_SECONDS, POLICY, GradingAttempt, receive_callback
from holdfast_grading.erasure import erase_submissions
from holdfast_grading.error_codes import DECLARED
from holdfast_grading.graders.tools import GradingTools
from holdfast_grading.intake import Intake
from holdfast_grading.messages import CALLBACK, REQUEST, Skill
from holdfast_grading.pages import FOLDER, NAVIGATION
from holdfast_grading.pages.submission_form import submission_form
from holdfast_grading.pages.submission_pages import submission_pages
from holdfast_grading.recordings import FOLDER as RECORDINGS
from holdfast_grading.recordings import delete_old
from holdfast_grading.routes import submission_routes
from holdfast_grading.settings import GradingSettings
from holdfast_grading.stored_submissions import stored_bytes
from holdfast_grading.submissions import Submissions

_log = logging.getLogger("holdfast.grading")
_ATTEMPT = GRADING_SECONDS + 10.0
"""Seconds that a job may take: to grade, and to store what came of it."""
# The breakers are asked before each call, as one attempt may call two downstreams.
_RETRY = replace(POLICY, breaker=None)
_RECEIVE = replace(presets.DATABASE, attempt_timeout=None, breaker=None)
_KEEP_RECORDINGS = 7 * 86_400.0
"""Seconds after its deadline for which a recording is kept: a dead letter may be retried."""
_SHORT = Retention(complete_for=3600.0, complete_newest=1000)
# A claim takes from all queues, so deadlines and results do not wait behind what is to be graded.
_QUICK: dict[str, Any] = {"queue": "grading-quick", "retention": _SHORT}
"""Options of the jobs that call no provider."""


def create(environment: Mapping[str, str]) -> "Grading":
    """Return the app as `environment` sets it up.

    Raises:
        BadSetting: a value cannot be used; the message names it.
    """
    return Grading(GradingSettings.load(environment))


class WorkerTools:
    """The tools of one worker, made when its first job brings the engine."""

    def __init__(self, make: Callable[[Engine], GradingTools]) -> None:
        self._make = make
        self._tools: GradingTools | None = None
        self._declared = False
        self._making = asyncio.Lock()

    async def use(self, engine: Engine) -> GradingTools:
        """Return the tools, whose downstreams have their breakers in the store of `engine`."""
        async with self._making:
            if self._tools is None:
                self._tools = self._make(engine)
            if not self._declared:
                assert POLICY.breaker is not None
                for name in self._tools.downstreams:
                    await engine.calls.declare(name, POLICY.breaker)
                self._declared = True
            return self._tools

    async def aclose(self) -> None:
        """Close them."""
        if self._tools is not None:
            await self._tools.aclose()


class Grading(ServedApp):
    """Submissions in, grades out.

    Args:
        settings: how it is set up.
        new_fetcher: makes the fetcher of a worker and of a server; by default as `settings` say.
        clock: where time comes from.
        rng: spreads what comes back after a breaker was open.
    """

    navigation = NAVIGATION
    folder = FOLDER
    message_queues = QUEUES
    job_facts = (
        JobFact("submissionId", "Submission", in_rows=False),
        JobFact("submissionStatus", "Submission is", in_rows=False),
        JobFact("failureReason", "Reason", in_rows=False),
    )

    def __init__(
        self,
        settings: GradingSettings,
        *,
        new_fetcher: Callable[[], Fetcher] | None = None,
        clock: Clock | None = None,
        rng: Random | None = None,
    ) -> None:
        app = App(
            "grading",
            errors=[*FETCH_ERRORS, *DECLARED],
            tables=AppTables("holdfast_grading"),
            lifespan=self._worker_tools,
            on_erase=self._erase,
            stored_bytes=self._stored_bytes,
        )
        super().__init__(app)
        self.settings = settings
        self._new_fetcher = new_fetcher or self._default_fetcher
        self._clock = clock or SystemClock()
        self._rng = rng or Random()
        self.files = ArtifactStore(settings.files)
        self._intake: Intake | None = None
        self.message_jobs = self._declare()

    async def _erase(self, engine: Engine, owner: str) -> dict[str, int]:
        return {"submissions": await erase_submissions(engine, self.files, owner)}

    async def _stored_bytes(self, engine: Engine, owner: str) -> AsyncGenerator[int, None]:
        async for part in stored_bytes(engine, self.files, owner):
            yield part

    def _default_fetcher(self) -> Fetcher:
        limits = FetchLimits(max_bytes=self.settings.max_audio_bytes)
        return Fetcher(limits, allow_private=self.settings.allow_private, clock=self._clock)

    def tools(self, engine: Engine) -> GradingTools:
        """Return new tools that use the breakers and rates of `engine`."""
        return GradingTools(
            self.settings, engine.calls, engine.shared_rate, self._new_fetcher(), self._clock
        )

    # -- the jobs ------------------------------------------------------------------------------

    def _declare(self) -> dict[str, Any]:
        @self.app.job(retry=_RETRY, timeout=_ATTEMPT)
        async def grade(ctx: JobContext, body: dict[str, Any]) -> str:
            """Grade a submission, and send the callback."""
            tools = await ctx.state.use(ctx.engine)
            return await GradingAttempt(ctx, tools, self._rng).run(body)

        @self.app.job(retry=_RECEIVE, **_QUICK)
        async def receive(ctx: JobContext, body: dict[str, Any]) -> str:
            """Receive the callback of a submission."""
            return await receive_callback(ctx, body)

        @self.app.job(name="notify", **_QUICK)
        async def notify(_ctx: JobContext) -> None:
            """Do nothing: its events alone update the owner's live stream."""

        @self.app.periodic(
            every=self.settings.check_seconds, retry=RetryPolicy(max_attempts=1), **_QUICK
        )
        async def time_out(ctx: JobContext) -> int:
            """Fail submissions whose deadline is over."""
            return await expire(ctx.engine)

        @self.app.periodic(every=3600, **_QUICK)
        async def delete_recordings(ctx: JobContext) -> int:
            """Delete recordings that belong to no submission, and those that are old."""
            submissions = Submissions(ctx.engine)
            count = await delete_unreferenced(self.files, RECORDINGS, submissions.exists)
            longest = max(self.settings.seconds_for(skill) for skill in Skill)
            before = ctx.slot.timestamp() - longest - _KEEP_RECORDINGS
            return count + await asyncio.to_thread(delete_old, self.files, before)

        return {REQUEST: grade, CALLBACK: receive}

    @contextlib.asynccontextmanager
    async def _worker_tools(self, _app: App) -> AsyncIterator[WorkerTools]:
        tools = WorkerTools(self.tools)
        try:
            yield tools
        finally:
            await tools.aclose()

    # -- what it serves ------------------------------------------------------------------------

    def routes(self, state: ServerState) -> APIRouter:
        """Return the routes below `/api`, and the one that the page's form posts to."""
        engine = cast(Engine, state.engine)
        self._intake = intake = Intake(self.settings, self._new_fetcher(), engine, state.intake)
        router = submission_form(intake)
        router.include_router(submission_routes(intake))
        return router

    def pages(self, pages: AppPages) -> APIRouter:
        """Return the pages of submissions."""
        assert self._intake is not None  # the routes are asked for before
        return submission_pages(pages, self._intake)

    @contextlib.asynccontextmanager
    async def _running(self, engine: Engine) -> AsyncIterator[None]:
        if (warning := self._new_fetcher().start_warning) is not None:
            _log.warning("%s", warning)
        await asyncio.to_thread(self.files.prepare)
        url = self.settings.broker_url
        async with nullcontext() if url is None else consuming(engine, url):
            yield

    def running(self, state: ServerState) -> AbstractAsyncContextManager[None]:
        """Prepare the folder for recordings, and take callbacks from the broker if there is one."""
        return self._running(cast(Engine, state.engine))

    def facts(self, job: Job, now: float) -> JobFacts:
        """Return what a notice says of its submission."""
        del now
        meta = meta_of(job)
        return JobFacts(
            title="Submission",
            values={
                "submissionId": meta.get("submissionId"),
                "submissionStatus": meta.get("status"),
                "failureReason": meta.get("failureReason"),
            },
            can_retry=job.can_retry,
        )
