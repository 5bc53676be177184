"""Report how far an attempt is, where a person could see it."""

import asyncio
from types import TracebackType
from typing import Self

from holdfast import JobContext
from holdfast_ingestion.document_state import Stage

_PROGRESS = {Stage.FETCHING: 0.1, Stage.EXTRACTING: 0.4, Stage.INDEXING: 0.7}
_SEEN_AFTER = 0.2
"""Seconds after which a stage is reported: each report is a transaction, and most stages of small
documents are over within milliseconds."""


class StageReports:
    """Report the stages of one attempt that last; a context manager around the attempt's work."""

    def __init__(self, ctx: JobContext) -> None:
        self._ctx = ctx
        # Not a task: nearly all of them would be cancelled before their first step.
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave()

    def enter(self, stage: Stage) -> None:
        """Begin a stage, which ends the one before."""
        self._leave()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_SEEN_AFTER, self._ctx.progress, _PROGRESS[stage], str(stage))

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
