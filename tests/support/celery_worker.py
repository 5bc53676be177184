"""Celery workers, a relay and a database for the tests of reliable tasks."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import aio_pika
import apsw
import psycopg
from celery import Celery
from kombu.entity import Queue
from tests.support.waiting import SOON

from holdfast.bootstrap import Engine
from holdfast.messaging import DeadLetterQueue, QueueSpec, RabbitPublisher
from holdfast.outbox import RelayOptions

RELAY = RelayOptions(poll_interval=0.2)


def wait_for(fact):
    """Poll `fact`, which may run an event loop, until it is true, and return its value."""
    end = time.monotonic() + SOON
    while not (answer := fact()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
    return answer


class Fleet:
    """A database, a queue, a relay in a thread, and worker processes of `tests.support.celery_app`.

    Close it with `close`.
    """

    def __init__(self, broker, database, folder, queue, kind):
        self.broker = broker
        self.database = database
        self.queue = queue
        self._calls = folder / "calls"
        self._calls.touch()
        self._log = folder / "log"
        self._workers = []
        self._environment = {
            "RABBITMQ_URL": broker.url(),
            "TASKS_DATABASE": database,
            "TASKS_CALLS": str(self._calls),
            "TASKS_QUEUE": queue,
            "TASKS_QUEUE_KIND": kind,
        }
        self._client = Celery("client", broker=broker.url(), set_as_current=False)
        self._client.conf.task_default_queue = queue
        self._client.conf.task_queues = [Queue(queue, queue_arguments={"x-queue-type": kind})]
        with Engine(database).blocking() as engine:
            assert engine.outbox.backlog().pending == 0
        self.rows("CREATE TABLE effects (request_id TEXT)")
        self._relay = RelayThread(broker.url(), database, [f"{queue}.answers"])

    def start_worker(self, concurrency=2):
        """Start a worker, wait until it consumes, and return its process."""
        name = f"{len(self._workers)}@{self.queue}"
        with self._log.open("ab") as log:
            worker = subprocess.Popen(
                [
                    sys.executable, "-m", "celery", "-A", "tests.support.celery_app", "worker",
                    "-c", str(concurrency), "-n", name, "-l", "INFO",
                    "--without-gossip", "--without-mingle", "--without-heartbeat",
                ],
                env={**os.environ, **self._environment}, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self._workers.append(worker)
        wait_for(lambda: worker.poll() is not None or f"{name} ready" in self.log())
        assert worker.poll() is None, self.log()
        return worker

    def kill(self, worker):
        """End a worker and its children with SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def close(self):
        """End everything."""
        for worker in self._workers:
            self.kill(worker)
        self._relay.close()

    def send(self, task, *args, headers=None, **kwargs):
        """Publish a call of a task as any Celery client would."""
        name = f"tests.support.celery_app.{task}"
        return self._client.send_task(name, args, kwargs, headers=headers or {})

    def log(self):
        """What the workers have written."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def calls(self, request_id=None):
        """The calls that a provider has seen, oldest first."""
        found = [json.loads(line) for line in self._calls.read_text().splitlines()]
        return [call for call in found if request_id in (None, call["request"])]

    def effects(self):
        """How often each request had its effect."""
        return Counter(request for (request,) in self.rows("SELECT request_id FROM effects"))

    def rows(self, statement):
        """Run a statement on the database and return its rows."""
        if self.database.startswith("sqlite"):
            connection = apsw.Connection(self.database.removeprefix("sqlite:///"))
            connection.set_busy_timeout(60_000)
            found = connection.execute(statement).fetchall()
            connection.close()
            return found
        with psycopg.connect(self.database) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def running(self):
        """The workers that run."""
        return [worker for worker in self._workers if worker.poll() is None]

    def breaker(self):
        """Return the durable record of the only downstream; None before its first call."""
        with Engine(self.database).blocking() as engine:
            return next(iter(engine.downstreams.list()), None)

    def handled(self, task):
        """How many requests of a task were handled."""
        table = "holdfast_inbox" if self.database.startswith("sqlite") else "holdfast.inbox"
        name = f"tests.support.celery_app.{task}"
        return self.rows(f"SELECT count(*) FROM {table} WHERE consumer = '{name}'")[0][0]

    def answers(self):
        """Return the bodies of the answers that were published, and leave them there."""
        tools = self.dead_letters(f"{self.queue}.answers")
        return [json.loads(answer.body) for answer in asyncio.run(tools.list())]

    def letters(self, request_id, queue=None):
        """Return the dead letters of a request."""
        tools = self.dead_letters(queue)
        return [
            letter
            for letter in asyncio.run(tools.list())
            if letter.headers.get("requestId") == request_id
        ]

    def dead_letters(self, queue=None):
        """Return the tools for the dead-letter queue."""
        return DeadLetterQueue(self.broker.url(), QueueSpec(queue or f"{self.queue}.dlq"))

    def ready(self):
        """How many messages the queue holds that no worker has."""

        async def count():
            connection = await aio_pika.connect(self.broker.url())
            async with connection, connection.channel() as channel:
                queue = await channel.declare_queue(self.queue, passive=True)
                return queue.declaration_result.message_count

        return asyncio.run(count())


class RelayThread:
    """A relay to RabbitMQ on an event loop of its own."""

    def __init__(self, broker, database, queues):
        self._broker = broker
        self._database = database
        self._queues = [QueueSpec(name) for name in queues]
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        self._ready.wait()

    async def _run(self):
        async with Engine(self._database) as engine:
            self._relay = engine.relay(RabbitPublisher(self._broker, self._queues), RELAY)
            self._loop = asyncio.get_running_loop()
            self._ready.set()
            await self._relay.run()

    def close(self):
        self._loop.call_soon_threadsafe(self._relay.stop)
        self._thread.join()
