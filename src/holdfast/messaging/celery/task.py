"""The base class for Celery tasks."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from celery import Task
from celery.exceptions import Ignore, Retry

from holdfast.clock import SYSTEM_CLOCK
from holdfast.messaging.celery.delivery import TaskDelivery
from holdfast.messaging.celery.process_engine import process_engine_of
from holdfast.messaging.celery.requeue import sent_back
from holdfast.messaging.celery.task_messages import check_options, default_queue_of, new_call
from holdfast.messaging.celery.task_outcome import TaskEvent, seconds_until
from holdfast.outbox.model import MessageDraft
from holdfast.resilience import presets
from holdfast.resilience.policy import RetryPolicy

__all__ = ["AlreadyHandled", "ReliableTask", "TaskEvent"]

_DELIVERY = "holdfast_delivery"


class AlreadyHandled(Ignore):  # type: ignore[misc]  # Celery has no types
    """Another delivery has handled the request: the task's own transaction must be rolled back."""


class ReliableTask(Task):  # type: ignore[misc]  # Celery has no types
    """A Celery task whose request is handled once, retried durably, and never lost.

        @app.task(base=ReliableTask, bind=True, downstream="llm")
        def grade(self, submission_id, text): ...

    Any of these attributes may be given to `@app.task`:

    Attributes:
        policy: how often and after which delays it is tried, and which errors are permanent.
            `max_attempts` also bounds how often it may take its worker down.
        downstream: the name of the dependency that it calls. Its breaker follows
            `policy.breaker`, and is shared through the store by all tasks and jobs that name it.
            The whole task counts as the call. A task that does more than the call names none, and
            makes each call with `engine.calls.run`: a `CircuitOpenError` that it raises puts the
            task off, which costs no attempt.
        dead_letter_queue: for tasks that are given up; by default the name of the queue and
            `.dlq`. Declared where it is missing.
        request_id_argument: the argument that names the request; by default the Celery task id
            does. Requests with the same name are handled once.
        aggregate_argument: the argument that names what the request speaks of; by default the
            request's name.
        lease_seconds: after a worker died, the time until another one runs its task. A running
            task extends its lease in thirds of it.

    The messages must be JSON, Celery's default. Celery itself publishes the next tasks of a chain,
    links and chords, after the result is recorded: a crash between the two loses them. Send them
    with `apply_in_transaction`.
    """

    abstract = True
    acks_late = True
    acks_on_failure = True
    acks_on_timeout = False  # the process was killed: the message must come again
    reject_on_worker_lost = True
    serializer = "json"

    policy: RetryPolicy = presets.GRADING
    downstream: str | None = None
    dead_letter_queue: str | None = None
    request_id_argument: str | None = None
    aggregate_argument: str | None = None
    lease_seconds: float = 30.0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task; in a worker under its guarantees, elsewhere as the plain function."""
        if self.request.called_directly or self.request.is_eager:
            return super().__call__(*args, **kwargs)
        try:
            delivery = TaskDelivery(self, process_engine_of(self.app), args, kwargs)
        except Exception as error:  # Celery would acknowledge the message
            raise sent_back(self, error, SYSTEM_CLOCK) from error
        setattr(self.request, _DELIVERY, delivery)
        return delivery.run()

    # -- for the body of the task ----------------------------------------------------------------

    @property
    def request_id(self) -> str:
        """The name of the request that is being handled; the same in each attempt."""
        delivery = self._delivery
        return str(self.request.id) if delivery is None else delivery.request_id

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1; one that a breaker has put off is not counted."""
        delivery = self._delivery
        return 1 if delivery is None else delivery.attempt

    @property
    def idempotency_key(self) -> str:
        """A key for a provider, which charges once for all calls with the same key."""
        return f"{self.name}:{self.request_id}"

    def complete_in(self, connection: object) -> None:
        """Record the request as handled in your own transaction, with your own rows.

            with psycopg.connect(...) as connection:
                connection.execute("INSERT INTO grades ...")
                self.complete_in(connection)

        Both are committed together or not at all. To be called once, in the task's last
        transaction: a failure after its commit is not retried. Where it is not committed by the
        end of the task, the task has failed and is tried again.

        Args:
            connection: of the types that `Engine.enqueue` takes as `connection=`, from a driver
                that blocks; to the database of the engine.

        Raises:
            AlreadyHandled: it was handled before. Let it pass: your transaction is rolled back and
                the delivery is acknowledged.
            TypeError: the store does not support this type of `connection`.
            ValueError: the connection has no open transaction.
        """
        delivery = self._delivery
        if delivery is None:
            return  # called directly, in a test
        inbox = process_engine_of(self.app).get().inbox
        if not inbox.first(connection, delivery.request_id, consumer=self.name):
            raise AlreadyHandled(f"request {delivery.request_id} was handled before")
        delivery.completed = True

    def messages_for(self, event: TaskEvent) -> Iterable[MessageDraft]:  # noqa: ARG002 - a hook
        """Return messages to commit with a retry, a hold or a dead letter. Override it.

        They are published by the relay, such as an answer that says `CIRCUIT_OPEN`.
        """
        return ()

    def retry(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        exc: BaseException | None = None,
        throw: bool = True,
        eta: datetime | None = None,
        countdown: float | None = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> Retry:
        """Try again later, as Celery's own `retry`; the message waits in the database.

        Without `countdown` and `eta` the policy decides the delay; it always decides how often, so
        `max_retries` is not used.

        Raises:
            TypeError: other arguments or options are given: the retried message is the same.
        """
        if self.request.called_directly or self.request.is_eager:
            given = {"throw": throw, "eta": eta, "countdown": countdown, "max_retries": max_retries}
            return super().retry(args, kwargs, exc, **given, **options)
        if args is not None or kwargs is not None or options:
            raise TypeError("a reliable task is retried with the arguments that it has")
        later = Retry(exc=exc, when=eta if countdown is None else countdown)
        if throw:
            raise later
        return later

    # -- for callers -----------------------------------------------------------------------------

    def apply_async(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        task_id: str | None = None,
        **options: Any,
    ) -> Any:
        """Call the task, as Celery's own `apply_async`; with a delay the message is durable.

        Celery would publish a call with `countdown` or `eta` at once, and a worker would keep it
        in memory. Here it waits in the outbox, and a relay publishes it when it is due.

        Raises:
            NotConnected: the call is delayed, and its app has no engine.
            TypeError: the call is delayed, and has an option that the outbox cannot keep:
                `priority`, `exchange` or `routing_key`.
        """
        when = options.get("countdown") or options.get("eta")
        delay = seconds_until(when, SYSTEM_CLOCK.wall())
        if not delay or self.app.conf.task_always_eager:
            return super().apply_async(args, kwargs, task_id, **options)
        if self.typing:
            self.__header__(*(args or ()), **(kwargs or {}))
        kept = {name: options[name] for name in options if name not in {"countdown", "eta"}}
        return self._apply_later(args or (), kwargs or {}, task_id, delay, kept)

    def apply_in_transaction(
        self,
        connection: object,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        task_id: str | None = None,
        aggregate_id: str | None = None,
        queue: str | None = None,
        delay: float = 0.0,
    ) -> str:
        """Call the task once the transaction of `connection` has committed; return the task id.

        The message is in the outbox with your own rows, and a relay publishes it. Tasks of one
        aggregate are published in the order of their transactions.

        Args:
            connection: as for `complete_in`.
            aggregate_id: what it speaks of; by default the task id.
            queue: its name; by default the one that Celery's routes lead to.
            delay: seconds after which it is published at the earliest.
        """
        identifier, body, headers = new_call(self, args, kwargs or {}, task_id)
        process_engine_of(self.app).get().outbox.add(
            connection,
            aggregate_id or identifier,
            queue or default_queue_of(self),
            body,
            headers=headers,
            delay=delay,
        )
        return identifier

    def _apply_later(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        task_id: str | None,
        delay: float,
        options: dict[str, Any],
    ) -> Any:
        queue = options.pop("queue", None)
        identifier, body, headers = new_call(self, args, kwargs, task_id, check_options(options))
        name = str(getattr(queue, "name", queue) or default_queue_of(self))
        draft = MessageDraft(identifier, name, body, headers, delay)
        process_engine_of(self.app).get().handling.add([draft])
        return self.AsyncResult(identifier)

    @property
    def _delivery(self) -> TaskDelivery | None:
        return getattr(self.request, _DELIVERY, None)
