"""A Celery app with one reliable task, whose deliveries a test makes itself in its own process."""

import json

from celery import Celery
from kombu.entity import Exchange, Queue

from holdfast import BreakerPolicy, Engine, Exponential, RetryPolicy
from holdfast.messaging.celery import ReliableTask, connect

POLICY = RetryPolicy(
    max_attempts=2,
    backoff=Exponential(base=30, jitter=0),
    breaker=BreakerPolicy(consecutive_failures=1, open_for=60),
)


class Shop:
    """A Celery app with one task, `body`, whose deliveries a test makes itself."""

    def __init__(self, folder):
        self.path = folder / "work.db"
        self.app = Celery("shop", set_as_current=False, broker="memory://")
        self.app.conf.task_queues = [Queue("orders", Exchange("shop"), routing_key="order.new")]
        self.process = connect(self.app, lambda: Engine(f"sqlite:///{self.path}"))
        self.body = lambda task: "done"
        shop = self

        @self.app.task(
            shared=False,  # other Celery apps of the process do not get it
            base=ReliableTask,
            bind=True,
            name="send",
            policy=POLICY,
            request_id_argument="order",
        )
        def send(task, order):
            return shop.body(task)

        self.task = send

    def deliver(self, order="o1", round_=0, kwargs=None, task_id="t1", **request):
        """Deliver a message of the task as a worker does."""
        given = {"order": order} if kwargs is None else kwargs
        info = {"exchange": "shop", "routing_key": "order.new"}
        self.task.push_request(
            id=task_id, args=[], kwargs=given, called_directly=False, is_eager=False, retries=0,
            headers={"holdfast_round": round_, "trace": "x"}, delivery_info=info, **request,
        )  # fmt: skip
        try:
            return self.task(**given)
        finally:
            self.task.pop_request()

    def messages(self):
        """The messages of the outbox, oldest first, each as (queue, headers, seconds of delay)."""
        found = reversed(self.process.get().outbox.list().messages)
        return [
            (each.message_type, json.loads(each.headers or "{}"), each.due_at - each.created_at)
            for each in found
        ]

    def raising(self, error):
        """Let the task raise `error` from now on."""

        def body(task):
            raise error

        self.body = body
