"""One attempt from its claim to its report: started → resolved → ran → judged → reported.

The value that goes through the pipeline is a `Run`. Each step reads what the one before left in
it, and whatever a handler does, even `sys.exit`, ends in a report. A step that fails notes a
`Trouble`, and the ones that would need its work are passed over.

A run can be asked to stop (`cut`), and one that does not obey in time is abandoned: it is judged
and reported as stopped while its handler still runs, keeps its slot until the handler ends, and
its answer is dropped; after a deadline it is kept as a late result. An answer that is there before
the report is always taken, whatever asked the handler to stop: the work is done.
"""

import asyncio
import contextlib
import inspect
import json
import os
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from holdfast.clock import Clock
from holdfast.errors import AttemptTimeout, DeadlineExceeded
from holdfast.jobs.declare.context import CancelReason, JobCancelled
from holdfast.jobs.declare.kinds import Hook
from holdfast.jobs.downstreams.record import Admission, CallReport, Verdict
from holdfast.jobs.model import (
    Cancelled,
    Completed,
    DeadLetterReason,
    Failed,
    Finished,
    Released,
)
from holdfast.jobs.store_port import Store, StoreError
from holdfast.jobs.worker.late_declaration import Declarer
from holdfast.jobs.worker.run import NOTHING, Run
from holdfast.jobs.worker.signals import interrupts_here, runs_now
from holdfast.jobs.worker.threads import Call, Threads, end_copy
from holdfast.jobs.worker.verdict import (
    Trouble,
    decide,
    failed_before,
    look,
    may_be_own,
    needs_history,
    refusal,
    trouble_of,
    would_be_own,
)

_COMPLETED = Completed()


class Children(Protocol):
    """What runs handlers in child processes."""

    async def execute(self, run: Run) -> Any:
        """Return the result as JSON text, or the `Trouble` that the child met."""
        ...


class Executor:
    """Take runs through the pipeline.

    Args:
        store: asked for a job's earlier attempts where a code is tried again only once, and handed
            late results.
        threads: where handlers that block run.
        children: where handlers with `isolation` run.
        on_ended: told of each run at its end, abandoned ones included.
        on_interrupt: told that the process was asked to stop from its keyboard.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        rng: Random,
        threads: Threads,
        children: Children,
        on_ended: Callable[[Run], None],
        on_interrupt: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self._threads = threads
        self._children = children
        self._on_ended = on_ended
        self._on_interrupt = on_interrupt
        self._declarer = Declarer(store, clock)

    async def execute(self, run: Run) -> None:
        """Take `run` from its claim to its report."""
        try:
            if self._started(run) and self._resolved(run):
                await self._ran(run)
            if run.abandoned:
                await self._keep_late(run)
                return
            if run.result is NOTHING:
                await self._judged(run)
            else:
                run.ended_at = self._clock.monotonic()
                run.outcome = _COMPLETED if run.result is None else Completed(run.result)
                run.verdict = Verdict.SUCCESS
            self._reported(run)
        finally:
            self._on_ended(run)

    def abandon(self, run: Run) -> None:
        """Judge and report a run that was cut and does not end; end it by force if possible."""
        run.abandoned = True
        run.ends_at = None
        self._judge_cut(run)
        self._reported(run)
        if run.call is not None:
            run.call.strike()

    # -- the steps -----------------------------------------------------------------------------

    def _started(self, run: Run) -> bool:
        if run.claim.admission is Admission.REFUSED:
            run.trouble = refusal(run.claim)
            run.outcome = Failed(run.trouble.error, DeadLetterReason.REFUSED)
            return False
        return run.cut is None

    def _resolved(self, run: Run) -> bool:
        handler = run.kind.handler
        if not handler.takes_arguments or run.kind.isolation is not None:
            return True
        try:
            run.arguments = handler.arguments.decode(run.claim.arguments)
        except Exception as error:
            run.trouble = look(error, run.kind, self._clock.wall())
            return False
        return True

    async def _ran(self, run: Run) -> None:
        process, kind = os.getpid(), run.kind
        try:
            if run.in_loop and kind.existing is None and run.claim.downstream is None:
                # What `_called` would do, without a coroutine of its own.
                value = await kind.handler.call(run.context, run.arguments)
                run.result = kind.handler.results.encode(value)
            else:
                await self._called(run)
        except asyncio.CancelledError as error:
            self._note_cancelled(run, error)
        except BaseException as error:
            if isinstance(error, GeneratorExit) and not runs_now(run.task):
                # Nobody runs this coroutine any more: it is being thrown away.
                raise
            self._note_error(run, error)
            if isinstance(error, KeyboardInterrupt) and run.in_loop and interrupts_here():
                # The signal may have struck while this handler had the main thread, or the handler
                # raised it itself: one cannot tell, so the attempt counts and the worker stops.
                self._on_interrupt()
        finally:
            end_copy(process)

    async def _judged(self, run: Run) -> None:
        """Judge a run that came back without an answer."""
        run.ended_at = self._clock.monotonic()
        if run.outcome is not None:
            return
        if run.trouble is None or run.cut is not None:
            self._judge_cut(run)
        else:
            repeated = await self._repeated(run.trouble, run)
            run.outcome = decide(
                run.trouble, run.claim, run.kind, self._rng,
                duration=run.ended_at - run.started_at, repeated=repeated, own=run.own,
            )  # fmt: skip
            run.verdict = run.trouble.verdict

    def _reported(self, run: Run) -> None:
        if run.lost and not run.has_result:
            # The job is another's by now. An answer is still sent: it may be a late result.
            return
        assert run.outcome is not None
        claim, report, meta = run.claim, None, None
        seen = None if run.trouble is None else run.trouble.diagnosis
        if claim.permit is not None and claim.downstream is not None and run.verdict is not None:
            code = None if seen is None else seen.code
            report = CallReport(claim.downstream, claim.permit, run.verdict, code)
        if seen is not None and seen.status is not None:
            meta = json.dumps({"gateway_http_status": seen.status})
        ended_at = run.ended_at if run.ended_at is not None else self._clock.monotonic()
        run.report = Finished(claim.lease, run.outcome, ended_at - run.started_at, report, meta)

    async def _called(self, run: Run) -> None:
        kind = run.kind
        if run.claim.downstream is not None and not await self._admitted(run):
            return
        if kind.isolation is not None:
            answer = await self._children.execute(run)
            if isinstance(answer, Trouble):
                run.trouble = answer
            else:
                run.result = answer
            return
        value = None
        if kind.existing is not None and kind.asks_existing(run.claim):
            value = await self._call_hook(run, kind.existing)
            if value is None and run.cut is not None:
                return
        if value is None:
            handler = kind.handler
            if handler.is_async:
                value = await handler.call(run.context, run.arguments)
            else:
                value = await self._in_thread(run, handler.call)
                if inspect.isawaitable(value):
                    run.awaited = True
                    value = await value
        run.result = kind.handler.results.encode(value)

    # -- details -------------------------------------------------------------------------------

    async def _in_thread(self, run: Run, function: Callable[..., Any]) -> Any:
        call: Call = self._threads.start(function, run.context, run.arguments)
        run.call = call
        try:
            return await call.future
        finally:
            run.call = None
            del call  # this frame is part of an error's traceback, which the call's future holds

    async def _call_hook(self, run: Run, hook: Hook) -> Any:
        if hook.is_async:
            return await hook.function(run.context, run.arguments)
        value = await self._in_thread(run, hook.function)
        return await value if inspect.isawaitable(value) else value

    def _note_cancelled(self, run: Run, error: asyncio.CancelledError) -> None:
        task = asyncio.current_task()
        asked = task is not None and task.cancelling() > 0
        while task is not None and task.cancelling():
            # Left standing it would confuse every timeout in what this task still does.
            task.uncancel()
        if run.cut is None and asked:
            # The loop is being torn down around us.
            run.cut = CancelReason.SHUTDOWN
        elif run.cut is None:
            self._note_error(run, error)

    def _note_error(self, run: Run, error: BaseException) -> None:
        if isinstance(error, JobCancelled) and run.cut is None:
            run.cut = CancelReason.REQUESTED
        run.trouble = trouble_of(error, run.kind, self._clock.wall())
        if run.cut is None and not run.trouble.diagnosis.known:
            run.context.logger.warning("attempt %d failed", run.claim.attempt, exc_info=error)

    def _judge_cut(self, run: Run) -> None:
        """Set the outcome of a run that was asked to stop, and stopped or was abandoned."""
        if run.ended_at is None:
            run.ended_at = self._clock.monotonic()
        run.verdict = Verdict.NEITHER
        if run.cut is CancelReason.REQUESTED:
            run.outcome = Cancelled()
        elif run.cut is not CancelReason.TIMEOUT:
            run.outcome = Released(reason=str(run.cut or CancelReason.SHUTDOWN))
        else:
            self._judge_timeout(run)

    def _judge_timeout(self, run: Run) -> None:
        name = run.kind.name
        error: Exception = AttemptTimeout(name, run.kind.timeout or 0.0)
        if run.by_deadline:
            error = DeadlineExceeded(name, run.deadline - run.started_at)
        run.trouble = trouble = look(error, run.kind, self._clock.wall())
        run.verdict = trouble.verdict
        if run.by_deadline:
            run.outcome = Failed(trouble.error, DeadLetterReason.DEADLINE)
        else:
            assert run.ended_at is not None
            duration = run.ended_at - run.started_at
            run.outcome = decide(
                trouble, run.claim, run.kind, self._rng, duration=duration, own=run.own
            )

    async def _admitted(self, run: Run) -> bool:
        """Settle what must be known of the downstream before a call; False: make none."""
        claim = run.claim
        if self._declarer.misses(claim, run.kind):
            if await self._declarer.declare(claim, run.kind, run.started_at):
                run.outcome = Released(reason="undeclared downstream")
                return False
        elif may_be_own(claim):
            # Where the store cannot say, the next trial asks again.
            with contextlib.suppress(StoreError):
                run.own = would_be_own(await self._store.attempts(claim.job_id), claim)
        return run.cut is None

    async def _repeated(self, trouble: Trouble, run: Run) -> bool:
        claim = run.claim
        if not needs_history(trouble, claim, own=run.own):
            return False
        try:
            attempts = await self._store.attempts(claim.job_id)
        except StoreError:
            # One attempt too many is still bounded by max_attempts.
            return False
        return failed_before(attempts, claim, trouble.diagnosis.code)

    async def _keep_late(self, run: Run) -> None:
        # Whoever noticed first that the deadline had passed, this worker or maintenance.
        if not run.has_result or run.claim.deadline_at is None:
            return
        lease = run.claim.lease
        try:
            await self._store.store_late_result(lease.job_id, lease.token, run.result)
        except StoreError as error:
            run.context.logger.warning("a late result could not be kept: %s", error)
