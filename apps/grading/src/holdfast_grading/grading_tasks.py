"""The Celery tasks: one call of a provider each, under the breaker that all workers share.

Speech takes two tasks. The first one ends by sending the transcript to the second, in the
transaction that records it as done, so a failure of the language model repeats no transcription.
Only the call itself is the provider's: a recording that cannot be fetched, or a request that has
expired, says nothing of it.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from celery import Celery
from msgspec.structs import replace

from holdfast.errors import ERRORS
from holdfast.messaging.celery import ReliableTask, TaskEvent
from holdfast.outbox import MessageDraft, Release
from holdfast_grading.celery_calls import GRADE, TRANSCRIBE
from holdfast_grading.messages import (
    CALLBACK,
    DEAD_LETTERS,
    CallbackError,
    GradingCallback,
    GradingRequest,
    completed,
)
from holdfast_grading.task_providers import TaskProviders
from holdfast_grading.task_transaction import store_time, task_transaction
from holdfast_grading.worker_settings import WorkerSettings

_log = logging.getLogger("holdfast.grading")


class GradingTask(ReliableTask):
    """A step of grading; its keyword arguments are the request.

    What ends a request without a result is called back as an error.
    """

    abstract = True
    dead_letter_queue = DEAD_LETTERS
    request_id_argument = "requestId"
    aggregate_argument = "submissionId"

    def messages_for(self, event: TaskEvent) -> Iterator[MessageDraft]:
        """Return the callback for a request that a breaker holds, or that is given up."""
        given = self.request.kwargs or {}
        if event.why is Release.RETRY or given.get("submissionId") != event.aggregate_id:
            return  # it goes on; or it names no submission
        # What a provider has said is for developers; the lines of the table are for people.
        line = ERRORS[event.code].message if event.code in ERRORS else event.message
        callback = GradingCallback(
            request_id=event.request_id,
            submission_id=event.aggregate_id,
            status="error",
            error=CallbackError(event.code, line),
            attempts=_attempts(event, given),
        )
        yield MessageDraft(event.aggregate_id, CALLBACK, callback.to_json())


def declare_tasks(
    app: Celery, settings: WorkerSettings, engine: Callable[[], Any], providers: TaskProviders
) -> None:
    """Declare the tasks of `app`; `engine` returns the blocking engine of the process."""
    url = settings.database_url

    def grade(task: GradingTask, request: GradingRequest) -> None:
        """Grade a text, and send the callback."""
        result = providers.grade(request)
        with task_transaction(url) as connection:
            task.complete_in(connection)
            answer = completed(request, result, _attempt_of(task, request)).to_json()
            engine().outbox.add(connection, request.submission_id, CALLBACK, answer)

    grading = _declared(app, settings, GRADE, grade)

    def transcribe(task: GradingTask, request: GradingRequest) -> None:
        """Turn speech into text, and send that on to be graded."""
        attempt = _attempt_of(task, request)
        spoken = providers.transcribe(replace(request, attempt=attempt))
        with task_transaction(url) as connection:
            task.complete_in(connection)
            grading.apply_in_transaction(
                connection, kwargs=spoken.to_json(), aggregate_id=request.submission_id
            )

    _declared(app, settings, TRANSCRIBE, transcribe)


def _declared(
    app: Celery,
    settings: WorkerSettings,
    name: str,
    step: Callable[[GradingTask, GradingRequest], None],
) -> Any:
    """Declare the task that does `step` with each request that has not expired."""

    # Celery has no types, so its decorators have none.
    @app.task(  # type: ignore[untyped-decorator]
        name=name,
        base=GradingTask,
        bind=True,
        shared=False,  # other Celery apps of the process do not get them
        policy=settings.retry,
        lease_seconds=settings.lease_seconds,
    )
    def call(
        self: GradingTask,
        requestId: str,  # noqa: N803 - as the message names it
        submissionId: str,  # noqa: N803 - as the message names it
        **rest: Any,
    ) -> None:
        """Do the step, unless the request has expired."""
        request = read(requestId, submissionId, rest)
        if not is_expired(request, settings.database_url):
            step(self, request)

    return call


def _attempt_of(task: GradingTask, request: GradingRequest) -> int:
    """Return the number of this attempt, counted from the first task of the request."""
    return request.attempt + task.attempt - 1


def _attempts(event: TaskEvent, given: Mapping[str, Any]) -> int | None:
    """Return how many attempts were made, also by the task before; None where none was."""
    if event.why is Release.HOLD:
        return None
    first = given.get("attempt")
    return event.attempts + (first - 1 if isinstance(first, int) and first > 0 else 0)


def read(request_id: str, submission_id: str, rest: dict[str, Any]) -> GradingRequest:
    """Return the request that a task was called with.

    Raises:
        Permanent: `INVALID_SCHEMA`.
    """
    names = {"requestId": request_id, "submissionId": submission_id}
    return GradingRequest.from_json({**rest, **names})


def is_expired(request: GradingRequest, database_url: str) -> bool:
    """Say whether the deadline of `request` is over by the store's time, and log it."""
    if not request.is_expired(store_time(database_url)):
        return False
    _log.info("submission %s is not graded: its deadline is over", request.submission_id)
    return True
