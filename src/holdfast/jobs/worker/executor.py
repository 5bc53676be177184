"""One attempt from its claim to its report: called → concluded → reported.

Each step returns the value that the next one takes: the handler's ending (an `Answer`, or the
`Failure` it met), then a `Conclusion`, then the report. Any exception of a handler, `SystemExit`
included, ends in a report. An answer with a transaction, `ctx.transaction()`, is committed together
with the completion of its job: it needs no report.

A run can be asked to stop (`Run.stop_reason`). One that does not stop in time is abandoned: it is
concluded and reported as stopped while its handler still runs, it keeps its slot until the handler
ends, and its answer is dropped; after a deadline the answer is stored as a late result.

Which outcome wins: an answer that arrives before the report, since the work is done; then the
reason for which the run was asked to stop; then the handler's error.
"""

import asyncio
import functools
import inspect
import json
import os
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from holdfast.clock import Clock
from holdfast.errors import AttemptTimeout, CircuitOpenError, DeadlineExceeded, ErrorCode
from holdfast.jobs.declare.attempt_scope import AttemptScope
from holdfast.jobs.declare.codecs import check_size
from holdfast.jobs.declare.context import CancelReason, JobCancelled
from holdfast.jobs.declare.kinds import Handler, Hook
from holdfast.jobs.declare.stored_arguments import decode_arguments
from holdfast.jobs.downstreams.record import Admission, CallReport, TrialRetry, Verdict
from holdfast.jobs.exceptions import ChildError
from holdfast.jobs.model import (
    Cancelled,
    Completed,
    DeadLetterReason,
    Finished,
    NewJob,
    Outcome,
    Released,
    Retry,
)
from holdfast.jobs.store_port import Store, StoreError
from holdfast.jobs.structs import Value
from holdfast.jobs.worker.attempt_commit import end_transaction
from holdfast.jobs.worker.failure import Failure, refusal, summarize
from holdfast.jobs.worker.late_declaration import LateDeclaration
from holdfast.jobs.worker.middleware import IsolatedFailure, call_through
from holdfast.jobs.worker.mismatches import MismatchLog
from holdfast.jobs.worker.retry_delay import asked_delay
from holdfast.jobs.worker.run import Children, Run
from holdfast.jobs.worker.signals import interrupts_here, runs_now
from holdfast.jobs.worker.threads import HandlerCall, HandlerThreads, end_copy
from holdfast.jobs.worker.verdict import (
    Conclusion,
    decide,
    failed,
    failed_before,
    failed_trial,
    needs_history,
)
from holdfast.resilience.error_attributes import is_a
from holdfast.time_limit import RUNNING


class Answer(Value, frozen=True):
    """What a handler returned, as JSON text; None is its own short form of null."""

    result: str | None


Ending = Answer | Failure | Conclusion | None
"""How a handler ended; a `Conclusion` where it was not called, None where it was stopped."""

_TURNS = 3
"""Turns of the event loop in which a worker learns that its task was cancelled."""

_COMPLETED = Conclusion(Completed(), Verdict.SUCCESS)


class Executor:
    """Take runs through the pipeline.

    Args:
        store: asked for a job's earlier attempts where a code is tried again only once, and given
            late results.
        threads: where blocking handlers run.
        children: where handlers with `isolation` run.
        payload_limit: most bytes of JSON in a result.
        on_ended: called with each run at its end, abandoned ones included.
        on_interrupt: called when the process was asked to stop from its keyboard.

    Attributes:
        stopping: the worker stops.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        rng: Random,
        threads: HandlerThreads,
        children: Children,
        payload_limit: int,
        on_ended: Callable[[Run], None],
        on_interrupt: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self._threads = threads
        self._children = children
        self._payload_limit = payload_limit
        self._on_ended = on_ended
        self._on_interrupt = on_interrupt
        self.stopping = False
        self._late_declaration = LateDeclaration(store, clock)
        self._mismatches = MismatchLog()

    async def execute(self, run: Run) -> None:
        """Take `run` from its claim to its report."""
        try:
            ending = await self._run(run)
            scope = run.context.end()
            if scope is not None and scope.block is not None:
                ending = await self._end_transaction(run, ending, scope)
                if run.committed is not None:
                    return
            if run.abandoned:
                await self._store_late_result(run, ending)
            elif isinstance(ending, Answer) or not run.lost:
                ended_at = self._clock.monotonic()
                conclusion = await self._conclude(run, ending, ended_at)
                run.report = _report(run, conclusion, ended_at, scope.jobs if scope else ())
        finally:
            self._on_ended(run)

    def abandon(self, run: Run) -> None:
        """Report a run that was asked to stop and does not; kill its child process, if any."""
        run.abandoned = True
        run.ends_at = None
        if not run.lost:
            ended_at = self._clock.monotonic()
            run.report = _report(run, self._stopped(run, ended_at), ended_at)
        if run.call is not None:
            run.call.kill()

    # -- running the handler -------------------------------------------------------------------

    async def _run(self, run: Run) -> Ending:
        if run.claim.admission is Admission.REFUSED:
            refused = refusal(run.claim)
            run.error = CircuitOpenError(run.claim.downstream or run.kind.name)
            outcome = failed(refused.error, DeadLetterReason.REFUSED, run.kind)
            return Conclusion(outcome, verdict=None, failure=refused)
        if run.stop_reason is not None:
            return None
        process = os.getpid()
        RUNNING.set(run.context)  # the task of this run has a context of its own
        try:
            return await self._call(run)
        except asyncio.CancelledError as error:
            return await self._cancelled(run, error)
        except BaseException as error:
            if is_a(error, GeneratorExit) and not runs_now(run.task):
                # The coroutine is being closed by the interpreter, not by its task.
                raise
            failure = self._failed(run, error)
            if is_a(error, KeyboardInterrupt) and run.in_loop and interrupts_here():
                # The signal may have arrived while this handler had the main thread, or the handler
                # raised it itself. Both look alike: the attempt counts, and the worker stops.
                self._on_interrupt()
            return failure
        finally:
            end_copy(process)

    async def _call(self, run: Run) -> Ending:
        claim, kind = run.claim, run.kind
        arguments = None
        if kind.handler.takes_arguments and kind.isolation is None:
            arguments = decode_arguments(kind, claim.arguments)
        if claim.downstream is not None:
            early = await self._prepare_downstream(run)
            if early is not None or run.stop_reason is not None:
                return early
        span = None if kind.tracing is None else kind.tracing.attempt(run.context)
        if span is not None or kind.middleware:
            handle = functools.partial(self._handle, run, arguments)
            value = await call_through(kind.middleware, run.context, handle, span)
        elif kind.isolation is not None:
            answer = await self._children.execute(run)
            if isinstance(answer, Failure):
                run.error = ChildError(answer.diagnosis.code, answer.message, answer.traceback)
                return answer
            return self._answer(run, answer)
        else:
            value = await self._value(run, arguments)
        return self._answer(run, kind.encode_result(value))

    def _answer(self, run: Run, result: str) -> Answer:
        check_size("the result", run.kind.name, result, self._payload_limit)
        return Answer(None if result == "null" else result)

    async def _handle(self, run: Run, arguments: Any) -> Any:
        """Return the result of the handler, wherever it runs, as a middleware sees it."""
        if run.kind.isolation is None:
            return await self._value(run, arguments)
        answer = await self._children.execute(run)
        if isinstance(answer, Failure):
            raise IsolatedFailure(answer)
        return run.kind.handler.results.decode(answer)

    async def _value(self, run: Run, arguments: Any) -> Any:
        """Return the result of an earlier attempt, if there is one, or of the handler."""
        kind = run.kind
        if kind.existing is not None and kind.asks_existing(run.claim):
            value = await self._invoke(run, kind.existing, arguments)
            if value is not None:
                return value
            if run.stop_reason is not None:
                raise asyncio.CancelledError
        return await self._invoke(run, kind.handler, arguments)

    async def _invoke(self, run: Run, called: Handler | Hook, arguments: Any) -> Any:
        """Call a coroutine function on this loop, and any other function on a thread."""
        if called.is_async:
            return await called.call(run.context, arguments)
        value = await self._in_thread(run, called.call, arguments)
        if inspect.isawaitable(value):
            run.awaited = True
            value = await value
        return value

    async def _in_thread(self, run: Run, function: Callable[..., Any], arguments: Any) -> Any:
        call: HandlerCall = self._threads.start(function, run.context, arguments)
        run.call = call
        try:
            return await call.future
        finally:
            run.call = None
            # An error's traceback holds this frame, and the call's future holds the error: without
            # this line they would form a reference cycle.
            del call

    async def _cancelled(self, run: Run, error: asyncio.CancelledError) -> Failure | None:
        task = asyncio.current_task()
        asked = task is not None and task.cancelling() > 0
        while task is not None and task.cancelling():
            # Left standing it would confuse every timeout in what this task still does.
            task.uncancel()
        if run.stop_reason is None and asked:
            # An event loop that shuts down cancels all tasks, and the worker's own learns of it in
            # the next turns. Otherwise the handler cancelled its own task: the attempt counts.
            for _ in range(_TURNS):
                await self._clock.sleep_async(0)
            if self.stopping:
                run.stop_reason = CancelReason.SHUTDOWN
        return None if run.stop_reason is not None else self._failed(run, error)

    def _failed(self, run: Run, error: BaseException) -> Failure:
        if is_a(error, JobCancelled) and run.stop_reason is None:
            run.stop_reason = CancelReason.REQUESTED
        if not run.abandoned and not run.lost:  # else nothing reports it
            run.error = error
        if is_a(error, IsolatedFailure):
            return error.failure
        return summarize(error, run.kind, self._clock.wall())

    async def _prepare_downstream(self, run: Run) -> Conclusion | None:
        """Declare a downstream that the store does not know; return what that leads to."""
        declaration, claim = self._late_declaration, run.claim
        if not declaration.is_needed(claim, run.kind):
            return None
        if not await declaration.declare(claim, run.kind, run.started_at):
            return None
        return Conclusion(Released(reason="undeclared downstream"), verdict=None)

    # -- the handler's transaction -------------------------------------------------------------

    async def _end_transaction(self, run: Run, ending: Ending, scope: AttemptScope) -> Ending:
        """Commit the handler's transaction with the completion of its job, or roll it back."""
        report = None
        if isinstance(ending, Answer):
            report = _report(run, _completion(ending), self._clock.monotonic(), scope.jobs)
        try:
            result = await end_transaction(run, scope, report)
        except asyncio.CancelledError as error:
            return await self._cancelled(run, error)
        except Exception as error:
            return self._failed(run, error)
        if report is not None and result is not None:
            run.committed = report, result
        return ending

    # -- concluding ----------------------------------------------------------------------------

    async def _conclude(self, run: Run, ending: Ending, ended_at: float) -> Conclusion:
        if isinstance(ending, Answer):
            return _completion(ending)
        if isinstance(ending, Conclusion):
            return ending
        if ending is None or run.stop_reason is not None:
            return self._stopped(run, ended_at)
        outcome = decide(
            ending, run.claim, run.kind, self._rng, duration=ended_at - run.started_at,
            repeated=await self._failed_before(run, ending),
        )  # fmt: skip
        if ending.diagnosis.code == ErrorCode.ARGUMENTS_MISMATCH:
            self._mismatches.note(run.kind.name, run.claim.job_id, ending)
        return Conclusion(outcome, ending.verdict, ending)

    async def _failed_before(self, run: Run, failure: Failure) -> bool:
        claim = run.claim
        if not needs_history(failure, claim, run.kind):
            return False
        try:
            attempts = await self._store.attempts(claim.job_id)
        except StoreError:
            # One attempt too many is still bounded by max_attempts.
            return False
        return failed_before(attempts, claim, failure.diagnosis.code)

    def _stopped(self, run: Run, ended_at: float) -> Conclusion:
        """Conclude a run that was asked to stop, and stopped or was abandoned."""
        if run.stop_reason is CancelReason.TIMEOUT:
            return self._timed_out(run, ended_at)
        if run.stop_reason is CancelReason.REQUESTED:
            return Conclusion(Cancelled(), Verdict.NEITHER)
        reason = str(run.stop_reason or CancelReason.SHUTDOWN)
        return Conclusion(Released(reason=reason), Verdict.NEITHER)

    def _timed_out(self, run: Run, ended_at: float) -> Conclusion:
        name = run.kind.name
        error: Exception = AttemptTimeout(name, run.kind.timeout or 0.0)
        if run.by_deadline:
            error = DeadlineExceeded(name, run.deadline - run.started_at)
        run.error, failure = error, summarize(error, run.kind, self._clock.wall())
        if run.by_deadline:
            outcome: Outcome = failed(failure.error, DeadLetterReason.DEADLINE, run.kind)
        else:
            duration = ended_at - run.started_at
            outcome = decide(failure, run.claim, run.kind, self._rng, duration=duration)
        return Conclusion(outcome, failure.verdict, failure)

    async def _store_late_result(self, run: Run, ending: Ending) -> None:
        if not isinstance(ending, Answer) or run.claim.deadline_at is None:
            return
        lease = run.claim.lease
        try:
            await self._store.store_late_result(lease.job_id, lease.token, ending.result)
        except StoreError as error:
            run.context.logger.warning("a late result could not be stored: %s", error)


def _completion(answer: Answer) -> Conclusion:
    if answer.result is None:
        return _COMPLETED
    return Conclusion(Completed(answer.result), Verdict.SUCCESS)


def _trial_retry(run: Run, conclusion: Conclusion, ended_at: float) -> TrialRetry | None:
    claim, outcome = run.claim, conclusion.outcome
    if not isinstance(outcome, Retry) or not failed_trial(conclusion.verdict, claim):
        return None
    ended = claim.started_at + (ended_at - run.started_at)
    asked = 0.0 if conclusion.failure is None else asked_delay(conclusion.failure)
    not_before = ended + asked if asked else 0.0
    return TrialRetry(claim.job_id, claim.lease.token, ended + outcome.after, not_before)


def _report(
    run: Run, conclusion: Conclusion, ended_at: float, jobs: Sequence[NewJob] = ()
) -> Finished:
    claim, call, meta = run.claim, None, None
    diagnosis = None
    if conclusion.failure is not None:
        run.failure, diagnosis = conclusion.failure, conclusion.failure.diagnosis
    elif run.error is not None and run.report is None:
        run.error = None  # the handler was asked to stop, so its error is not reported
    if claim.permit is not None and claim.downstream is not None and conclusion.verdict is not None:
        code = None if diagnosis is None else diagnosis.code
        call = CallReport(
            claim.downstream,
            claim.permit,
            conclusion.verdict,
            code,
            _trial_retry(run, conclusion, ended_at),
        )
    http_status = run.context.http_status
    if http_status is None and diagnosis is not None:
        http_status = diagnosis.status
    if http_status is not None:
        meta = json.dumps({"http_status": http_status})
    outcome, duration = conclusion.outcome, ended_at - run.started_at
    if jobs and isinstance(outcome, Completed):
        return Finished(claim.lease, outcome, duration, call, meta, jobs=tuple(jobs))
    return Finished(claim.lease, outcome, duration, call, meta)
