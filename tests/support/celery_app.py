"""The Celery app that the worker processes of tests run: `celery -A tests.support.celery_app`.

Its tasks follow a plan that comes with the message: one word for each call, the last one for all
further calls. Every call is noted in a file, as a provider would count them.
"""

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path

import apsw
import httpx
import psycopg
from celery import Celery
from kombu.entity import Queue

from holdfast import BreakerPolicy, Engine, Exponential, Permanent, RetryPolicy
from holdfast.messaging.celery import ReliableTask, connect
from holdfast.outbox import MessageDraft, Release

DATABASE = os.environ.get("TASKS_DATABASE", "")
CALLS = Path(os.environ.get("TASKS_CALLS", "calls"))
QUEUE = os.environ.get("TASKS_QUEUE", "tasks")
KIND = os.environ.get("TASKS_QUEUE_KIND", "classic")
QUICK = RetryPolicy(max_attempts=3, backoff=Exponential(base=0.05, multiplier=1, cap=1.5))

app = Celery("tasks", broker=os.environ.get("RABBITMQ_URL"))
app.conf.update(
    task_queues=[Queue(QUEUE, queue_arguments={"x-queue-type": KIND})],
    task_default_queue=QUEUE,
    task_ignore_result=True,
    worker_prefetch_multiplier=2,
    worker_hijack_root_logger=False,
)
connect(app, lambda: Engine(DATABASE))


def note_call(task, request_id):
    """Note a call as a provider would, and return how many there were for this request before."""
    with CALLS.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        before = sum(json.loads(line)["request"] == request_id for line in file)
        call = {"request": request_id, "key": task.idempotency_key, "at": time.time()}
        file.write(json.dumps({**call, "pid": os.getpid()}) + "\n")
    return before


def follow(task, plan, number):
    """Do what `plan` says for the call with this number, from 0."""
    word, _, value = plan[min(number, len(plan) - 1)].partition(":")
    if word == "sleep":
        time.sleep(float(value))
    elif word == "status":
        status, _, after = value.partition(",")
        headers = {"Retry-After": after} if after else {}
        response = httpx.Response(int(status), headers=headers)
        raise httpx.HTTPStatusError(
            f"HTTP {status}", request=httpx.Request("GET", "http://provider"), response=response
        )
    elif word == "permanent":
        raise Permanent("AUDIO_UNREADABLE", "the audio does not decode")
    elif word == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "exit":
        sys.exit(3)
    elif word == "later":
        raise task.retry(countdown=float(value))


def store_effect(task, request_id):
    """Insert a row and complete the request, in one transaction."""
    if DATABASE.startswith("sqlite"):
        connection = apsw.Connection(DATABASE.removeprefix("sqlite:///"))
        connection.set_busy_timeout(60_000)
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            connection.execute("INSERT INTO effects VALUES (?)", (request_id,))
            task.complete_in(connection)
        connection.execute("COMMIT")
        connection.close()
        return
    with psycopg.connect(DATABASE) as connection:
        connection.execute("INSERT INTO effects VALUES (%s)", (request_id,))
        task.complete_in(connection)


@app.task(
    base=ReliableTask, bind=True, policy=QUICK, dead_letter_queue=f"{QUEUE}.dlq",
    request_id_argument="request_id", aggregate_argument="subject", lease_seconds=1.0,
)  # fmt: skip
def work(self, request_id, plan, subject="essay"):
    follow(self, plan, note_call(self, request_id))
    store_effect(self, request_id)


@app.task(base=ReliableTask, bind=True, policy=QUICK, lease_seconds=1.0, time_limit=1)
def plain(self, plan):
    """A task without a transaction or arguments of its own; its request is the task id."""
    follow(self, plan, note_call(self, self.request_id))


class Answering(ReliableTask):
    """Sends an answer whenever a delivery ends without a result."""

    abstract = True

    def messages_for(self, event):
        if event.why is not Release.RETRY:
            yield MessageDraft(event.aggregate_id, f"{QUEUE}.answers", {"code": event.code})


@app.task(
    base=Answering, bind=True, downstream="llm", lease_seconds=1.0,
    policy=RetryPolicy(
        max_attempts=100,
        backoff=Exponential(base=0.3, multiplier=1, cap=1.5),
        breaker=BreakerPolicy(
            consecutive_failures=None, failure_rate=0.5, window_calls=20, open_for=1.0
        ),
    ),
)  # fmt: skip
def guarded(self, plan_file):
    """A call whose plan is in a file, so that a test can let the provider recover."""
    note_call(self, "provider")
    follow(self, [Path(plan_file).read_text()], 0)
