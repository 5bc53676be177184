"""What an attempt commits together with its completion: new jobs, and a transaction."""

import asyncio
from collections.abc import Coroutine
from enum import Enum
from types import TracebackType
from typing import Any

from holdfast.jobs.declare.validation import check_rule
from holdfast.jobs.dedup import DedupRule
from holdfast.jobs.exceptions import ContextError
from holdfast.jobs.model import Finished, NewJob
from holdfast.jobs.store_values import TickResult
from holdfast.jobs.transaction_port import AttemptTransaction


class AttemptScope:
    """Jobs to be created, and the transaction to be committed, when an attempt completes its job.

    Attributes:
        jobs: the jobs of `ctx.enqueue`, in order.
        block: what `ctx.transaction()` returned.
    """

    __slots__ = ("_rules", "block", "jobs")

    def __init__(self) -> None:
        self.jobs: list[NewJob] = []
        self.block: TransactionBlock | None = None
        self._rules: dict[tuple[str, str], DedupRule | None] = {}

    def add(self, job: NewJob) -> None:
        """Add a job.

        Raises:
            ValidationError: one before it has the same dedup key with another rule.
        """
        check_rule(self._rules, job)
        self.jobs.append(job)


class _State(Enum):
    NEW = "not entered"
    OPEN = "inside the block"
    HELD = "after the block, to be committed"
    OVER = "rolled back"


class TransactionBlock:
    """The transaction of an attempt: `async with`, or `with` in a handler that blocks.

    It begins with the block. Its end does not commit: the worker commits when the handler has
    returned, in one step with the job's completion, so that the handler can still return its
    result. An exception that leaves the block, or the handler, rolls back.
    """

    __slots__ = ("_job_id", "_loop", "_state", "_transaction")

    def __init__(
        self, job_id: str, transaction: AttemptTransaction, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._job_id = job_id
        self._transaction = transaction
        self._loop = loop
        self._state = _State.NEW

    async def __aenter__(self) -> Any:
        if asyncio.get_running_loop() is not self._loop:
            raise ContextError(
                f"job {self._job_id}: ctx.transaction() is entered on another event loop than the "
                f"worker's: make the handler async, or use `with` and a driver that blocks"
            )
        return await self._begin(blocking=False)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        meant = self._leave(error)
        if error is not None:
            await self._transaction.rollback()
        if meant is not None:
            raise meant from error

    def __enter__(self) -> Any:
        if _runs_event_loop():
            raise ContextError(
                f"job {self._job_id}: in an async handler write `async with ctx.transaction()`"
            )
        return self._wait(self._begin(blocking=True))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        meant = self._leave(error)
        if error is not None:
            self._wait(self._transaction.rollback())
        if meant is not None:
            raise meant from error

    async def _begin(self, *, blocking: bool) -> Any:
        if self._state is not _State.NEW:
            raise ContextError(f"job {self._job_id}: the block of ctx.transaction() ran before")
        self._state = _State.OPEN
        try:
            return await self._transaction.begin(blocking=blocking)
        except BaseException:
            self._state = _State.OVER
            await self._transaction.rollback()
            raise

    def _leave(self, error: BaseException | None) -> Exception | None:
        """Note the end of the block; return the exception to raise in place of `error`, if any."""
        self._state = _State.HELD if error is None else _State.OVER
        return None if error is None else self._transaction.explain(error)

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    # -- for the worker ------------------------------------------------------------------------

    @property
    def is_wanted(self) -> bool:
        """Whether it is to be committed with the completion.

        Raises:
            ContextError: its block has not ended.
        """
        if self._state is _State.OPEN:
            raise ContextError(
                f"job {self._job_id}: the handler returned while the block of ctx.transaction() "
                f"had not ended; its rows were rolled back"
            )
        return self._state is _State.HELD

    async def complete(self, finished: Finished) -> TickResult:
        """Commit, with the completion of the job; see `AttemptTransaction`."""
        return await self._transaction.complete(finished)

    async def rollback(self) -> None:
        """Roll back unless it is committed."""
        await self._transaction.rollback()


def _runs_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
