"""One delivery of a task: claimed → admitted → ran → settled.

Nothing is acknowledged before what became of it is in the database: the result with the inbox, the
next attempt or the dead letter in the outbox. A worker that dies before that leaves the message to
the broker; one that dies after it leaves a message that is known to be stale.
"""

import functools
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NoReturn, TypeVar

from celery.exceptions import Ignore, Retry

from holdfast.errors import Category, CircuitOpenError, ErrorCode, HoldfastError, Permanent
from holdfast.jobs.downstreams.record import Verdict
from holdfast.jobs.error_text import one_line
from holdfast.messaging.celery.process_engine import ProcessEngine
from holdfast.messaging.celery.requeue import sent_back
from holdfast.messaging.celery.task_messages import (
    dead_letter,
    ensure_queue,
    next_message,
    publish_now,
    queue_of,
)
from holdfast.messaging.celery.task_outcome import TaskEvent, TaskFailure, examine
from holdfast.messaging.dead_letter_queue import ROUND
from holdfast.outbox.client import LONGEST_DELAY, BadMessage, checked_name, drafted_message
from holdfast.outbox.handling import Release, RequestClaim, RequestStart, StartState
from holdfast.outbox.model import MessageDraft
from holdfast.resilience.backoff import Exponential
from holdfast.resilience.breaker.transitions import Permit
from holdfast.resilience.policy import BreakerPolicy, RetryPolicy

_log = logging.getLogger("holdfast.celery")
T = TypeVar("T")

WORKER_LOST = "WORKER_LOST"
"""The code of a task that died with its worker in every attempt."""
_STORE = RetryPolicy(max_attempts=7, backoff=Exponential(base=0.2, multiplier=2, cap=8))
"""For the statements of a delivery: about half a minute, then the message goes back."""
_SHORTEST_WAIT = 0.5
_MOST_ROUNDS = 2**31 - 1
"""What the store's column holds; a round rises by one at a time."""


class NotSettled(HoldfastError):
    """What became of a delivery is not in the store, so its message must come again."""


class TaskDelivery:
    """One delivery of `task`, which is a `ReliableTask`.

    Attributes:
        request_id: names the request; the same in every delivery of it.
        aggregate_id: what it speaks of.
        attempt: the number of this attempt, from 1; 0 before it is claimed.
        completed: the task's own transaction has recorded the request; it may yet be rolled back.
    """

    def __init__(
        self, task: Any, process: ProcessEngine, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        self._task = task
        self._process = process
        self._args = args
        self._kwargs = kwargs
        self._round = 0
        self._settled = False
        self.completed = False
        self.attempt = 0
        self._problem: Permanent | None = None
        task_id = str(task.request.id)
        self.request_id = self.aggregate_id = _storable(task_id)
        try:
            self._round = _round_of(task)
            if task.request_id_argument is None:
                checked_name("the task id", task_id)
            given = _signature(task.run).bind(*args, **kwargs)
            given.apply_defaults()
            self.request_id = self._named(given.arguments, task.request_id_argument)
            self.aggregate_id = self._named(given.arguments, task.aggregate_argument)
        except (TypeError, BadMessage) as error:
            self._problem = Permanent(ErrorCode.VALIDATION_ERROR, str(error))

    def _named(self, arguments: Mapping[str, Any], name: str | None) -> str:
        if name is None:
            return self.request_id
        if name not in arguments:
            raise TypeError(f"the task has no argument {name!r}")
        return checked_name(name, str(arguments[name]))

    # -- the pipeline --------------------------------------------------------------------------

    def run(self) -> Any:
        """Run the task if it may run, and settle what became of it.

        Raises:
            Reject, Ignore: what became of it is not in the store: the message goes back to its
                queue, see `requeue`.
        """
        try:
            return self._handle()
        except Exception as error:
            if self._settled:
                raise
            # Celery acknowledges whatever else is raised, such as a time limit that strikes now.
            raise sent_back(self._task, error, self._process.clock) from error

    def _handle(self) -> Any:
        claim = self._claim()
        self.attempt = claim.attempt
        policy, name = self._task.policy, self._task.name
        # From here on, since the store may be waited for longer than the lease lasts.
        with self._process.leased(claim, self._task.lease_seconds):
            if claim.attempt > policy.max_attempts:
                lost = Permanent(WORKER_LOST, "the worker died in every attempt")
                self._bury(claim, examine(policy, lost, name), claim.attempt - 1)
            if self._problem is not None:
                self._bury(claim, examine(policy, self._problem, name))
            permit = self._admit(claim)
            try:
                value = self._task.run(*self._args, **self._kwargs)
            except Ignore:
                # Nothing says that its downstream was called.
                self._finish(claim, permit, Verdict.NEITHER)
                raise
            except BaseException as error:
                self._failed(claim, permit, error)
            self._finish(claim, permit, Verdict.SUCCESS)
        return value

    def _claim(self) -> RequestClaim:
        """Return the claim on the request, or end a delivery that must not run."""
        start: RequestStart = self._stored(
            lambda: self._process.get().handling.begin(
                self._task.name,
                self.request_id,
                round_=self._round,
                lease_seconds=self._task.lease_seconds,
            )
        )
        if start.claim is not None:
            return start.claim
        if start.state is StartState.RUNNING:
            # It may be the redelivery of a message whose worker has just died.
            delay = max(_SHORTEST_WAIT, start.wait)
            copy = self._copy(self._round, self._task.request.retries, delay)
            self._stored(lambda: self._process.get().handling.add([copy]))
        self._settled = True
        _log.info("%s: request %s is %s", self._task.name, self.request_id, start.state)
        raise Ignore(f"request {self.request_id} is {start.state}")

    def _admit(self, claim: RequestClaim) -> Permit | None:
        """Return the breaker's permit, None without a breaker; or put the task off."""
        name = self._task.downstream
        if name is None:
            return None
        calls = self._process.get().calls
        breaker = self._task.policy.breaker or BreakerPolicy()
        self._stored(lambda: self._process.once(name, lambda: calls.declare(name, breaker)))
        admission = self._stored(lambda: calls.admit(name, self._task.lease_seconds))
        if admission.permit is None:
            error = CircuitOpenError(name, self._process.clock.wall() + admission.wait)
            self._put_off(claim, examine(self._task.policy, error, self._task.name), error)
        self._process.keep_trial(claim, name, admission.permit)
        return admission.permit

    def _put_off(
        self, claim: RequestClaim, failure: TaskFailure, error: CircuitOpenError
    ) -> NoReturn:
        """Let the task come again when the breaker may let it through; that costs no attempt."""
        cooldown = (self._task.policy.breaker or BreakerPolicy()).open_for
        wait = cooldown
        if error.retry_at is not None:
            wait = max(_SHORTEST_WAIT, error.retry_at - self._process.clock.wall())
        # Spread, so that those who wait do not all come back at the same moment.
        delay = wait + self._process.rng.random() * cooldown / 3
        copy = self._copy(claim.round + 1, self._task.request.retries, delay)
        if not self._is_storable(copy):
            self._bury(claim, failure)
        self._release(claim, Release.HOLD, [copy], self._event(Release.HOLD, failure, claim))
        raise Retry(exc=error, when=delay)

    def _finish(self, claim: RequestClaim, permit: Permit | None, verdict: Verdict) -> None:
        self._report(permit, verdict)
        if not self.completed:
            self._stored(lambda: self._process.get().handling.finish(claim))
        elif not self._is_committed():
            error = RuntimeError("the task's own transaction was not committed")
            self._failed(claim, None, Retry(exc=error))
        self._settled = True

    def _failed(self, claim: RequestClaim, permit: Permit | None, error: BaseException) -> NoReturn:
        failure = examine(self._task.policy, error, self._task.name)
        self._report(permit, failure.verdict, failure.code)
        if self.completed and self._is_committed():
            # What failed afterwards must not repeat its effect.
            self._settled = True
            _log.error("%s failed after its transaction: %s", self._task.name, failure.message)
            raise error
        if isinstance(error, CircuitOpenError) and failure.category is not Category.PERMANENT:
            self._put_off(claim, failure, error)
        last = claim.attempt >= self._task.policy.max_attempts
        if failure.category is Category.PERMANENT or last:
            self._bury(claim, failure)
        delay = failure.delay(self._task.policy, claim.attempt, self._process.rng)
        copy = self._copy(claim.round + 1, claim.attempt, delay)
        if not self._is_storable(copy):
            self._bury(claim, failure)
        self._release(claim, Release.RETRY, [copy], self._event(Release.RETRY, failure, claim))
        if not isinstance(error, Exception):
            raise error  # the process was asked to end
        raise Retry(exc=failure.cause, when=delay)

    def _bury(
        self, claim: RequestClaim, failure: TaskFailure, attempts: int | None = None
    ) -> NoReturn:
        """Send the task to the dead letters, and fail."""
        made = claim.attempt if attempts is None else attempts
        queue = self._task.dead_letter_queue or f"{queue_of(self._task)}.dlq"
        about = {
            "requestId": self.request_id,
            "submissionId": self.aggregate_id,
            "failureReason": failure.code,
            "attemptsMade": made,
            "lastError": failure.message,
            "timestamp": datetime.fromtimestamp(self._process.clock.wall(), UTC).isoformat(),
        }
        letter = dead_letter(
            self._task,
            aggregate_id=self.aggregate_id,
            queue=queue,
            round_=claim.round,
            about=about,
        )
        self._declare(queue)
        letters = [letter]
        if not self._is_storable(letter):
            # First of all: after a crash it is published twice, never lost.
            publish_now(self._task.app, letter)
            letters = []
        self._release(
            claim, Release.DEAD, letters, self._event(Release.DEAD, failure, claim, attempts=made)
        )
        _log.error(
            "%s: request %s goes to %s after %d attempts: %s",
            self._task.name, self.request_id, queue, made, failure.message,
        )  # fmt: skip
        raise failure.cause

    # -- parts ---------------------------------------------------------------------------------

    def _is_committed(self) -> bool:
        """Say whether the task's own transaction, which recorded the request, has committed."""
        return self._stored(
            lambda: self._process.get().inbox.handled(self.request_id, consumer=self._task.name)
        )

    def _copy(self, round_: int, retries: int, delay: float) -> Any:
        return next_message(
            self._task,
            aggregate_id=self.aggregate_id,
            round_=round_,
            retries=retries,
            delay=min(delay, LONGEST_DELAY),
        )

    def _event(
        self, why: Release, failure: TaskFailure, claim: RequestClaim, attempts: int | None = None
    ) -> TaskEvent:
        return TaskEvent(
            why,
            failure.code,
            failure.message,
            claim.attempt if attempts is None else attempts,
            self.request_id,
            self.aggregate_id,
        )

    def _release(
        self, claim: RequestClaim, why: Release, own: list[MessageDraft], event: TaskEvent
    ) -> None:
        """End the claim and add `own`, with the messages that the task itself sends for `event`."""
        messages = [*own, *self._messages_for(event)]
        done = self._stored(lambda: self._process.get().handling.release(claim, why, messages))
        if not done:
            # Another delivery has taken over; or a database server that was killed has forgotten
            # the claim, and this message is the only one. The store judges when it comes again.
            raise NotSettled(f"the claim on request {self.request_id} was lost")
        self._settled = True

    def _messages_for(self, event: TaskEvent) -> list[MessageDraft]:
        """Return the messages of the task's own hook that can be stored; none where it fails."""
        try:
            return [draft for draft in self._task.messages_for(event) if self._is_storable(draft)]
        except Exception as error:
            _log.exception("%s: messages_for failed: %s", self._task.name, one_line(error))
            return []

    def _is_storable(self, draft: MessageDraft) -> bool:
        try:
            drafted_message("", draft)
        except Exception as error:
            _log.error(
                "%s: request %s: a message cannot be stored: %s",
                self._task.name, self.request_id, one_line(error),
            )  # fmt: skip
            return False
        return True

    def _report(self, permit: Permit | None, verdict: Verdict, code: str | None = None) -> None:
        name = self._task.downstream
        if name is None or permit is None:
            return
        try:
            self._process.get().calls.report(name, permit, verdict, code)
        except Exception as error:
            # The call's own outcome must not suffer from it.
            _log.warning("a call to %s was not counted: %s", name, error)

    def _declare(self, queue: str) -> None:
        try:
            self._process.once(f"queue {queue}", lambda: ensure_queue(self._task.app, queue))
        except Exception as error:
            # A relay tries to publish the letter for a while, which declares no queue; after that
            # it is one of the failed messages of the outbox, for a person to requeue.
            _log.warning("the queue %s was not declared: %s", queue, one_line(error))

    def _stored(self, work: Callable[[], T]) -> T:
        """Return what `work` returns; a store that does not answer is asked again for a while.

        Raises:
            NotSettled: it does not answer, or cannot keep what it is given.
        """
        result = self._process.service.execute_sync(work, _STORE, "holdfast-store")
        if result.ok:
            return result.unwrap()
        error = result.error
        assert error is not None
        raise NotSettled(one_line(error)) from error


@functools.lru_cache(maxsize=1024)
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _round_of(task: Any) -> int:
    """Return the round of the message that the running delivery of `task` came with.

    Raises:
        BadMessage: its header is not a round.
    """
    found = (task.request.headers or {}).get(ROUND) or 0
    if not isinstance(found, int) or not 0 <= found < _MOST_ROUNDS:
        raise BadMessage(f"{ROUND} must be a number from 0, got {found!r}")
    return found


def _storable(task_id: str) -> str:
    """Return `task_id`, or a name of its own for one that cannot be stored."""
    try:
        return checked_name("the task id", task_id)
    except BadMessage:
        return sha256(task_id.encode(errors="surrogatepass")).hexdigest()
