"""A deployment of grading: `holdfast serve` with its relay and its consumer, and Celery workers."""

import asyncio
import json
import os
import secrets
import sys

import psycopg
from campaigns.service import ServiceProcess
from tests.support.grading_processes import CeleryWorker, wait_for

from holdfast.bootstrap import Engine
from holdfast.messaging import DeadLetterQueue, QueueSpec, RabbitPublisher
from holdfast_grading.app import create
from holdfast_grading.deadlines import expire
from holdfast_grading.messages import DEAD_LETTERS

APP = "holdfast_grading.app:create"
TOKEN = "the admin token of the tests"
QUICK = {
    "LEASE_MS": "1000",
    "RETRY_MAX_ATTEMPTS": "3",
    "RETRY_BASE_DELAY": "50",
    "RETRY_MAX_DELAY": "1500",
    "CIRCUIT_TIMEOUT": "1000",
    "OUTBOX_POLL_INTERVAL_MS": "200",
    "HOLDFAST_ADMIN_TOKEN": TOKEN,
}


class Deployment:
    """A context manager that starts a server and a worker, and ends whatever runs."""

    def __init__(self, folder, url, broker, model):
        self.folder = folder
        self.url = url
        self.broker = broker
        self.model = model
        self._settings = {
            **QUICK,
            "RABBITMQ_URL": broker.url(),
            "CHATMOCK_BASE_URL": model.url,
            "STT_BASE_URL": model.url,
            "FETCH_ALLOW_PRIVATE": "1",
            "HOLDFAST_DATABASE_URL": url,
        }
        path = os.pathsep.join(filter(None, sys.path))
        self.environment = {**os.environ, **self._settings, "PYTHONPATH": path}
        self.service = ServiceProcess(APP, folder, url, self._settings)
        self._workers = []
        self._cookies = {}

    def __enter__(self):
        self.service.start()
        self.start_worker()
        return self

    def __exit__(self, *_):
        self.kill_workers()
        self.service.stop()

    def operate(self, method, path):
        """Send a request with the admin token, and return the answer."""
        with self.service.client(authorization=f"Bearer {TOKEN}") as client:
            return client.request(method, path)

    def restart_service(self):
        """Stop the server, and start it again."""
        self.service.stop()
        self.service.start()

    def kill_workers(self):
        """End all workers with SIGKILL."""
        for worker in self._workers:
            worker.kill()

    async def kill_children(self, exchange):
        """Kill the processes of the workers in place of an answer of the model."""
        for worker in self._workers:
            worker.kill_children()
        exchange.reset()

    def start_worker(self):
        """Start a worker, wait until it consumes, and return it."""
        name, log = f"worker{len(self._workers)}", self.folder / "worker.log"
        worker = CeleryWorker(name, self.environment, log)
        self._workers.append(worker)
        worker.wait_until_ready()
        return worker

    # -- submissions -----------------------------------------------------------------------------

    def mark(self):
        """Return a new word for a text, by which the model knows it."""
        return secrets.token_hex(6)

    def submit(self, mark=None, **more):
        """Hand in a text with a mark, and return the answer's body."""
        body = {"skill": "writing", "text": f"Some words, mark-{mark or self.mark()}.", **more}
        return self.submit_body(body)

    def submit_body(self, body):
        """Hand in a submission, and return the answer's body."""
        with self.service.client() as client:
            client.cookies.update(self._cookies)
            answer = client.post("/api/submissions", json=body)
            self._cookies |= dict(client.cookies)
        assert answer.status_code in {200, 202}, answer.text
        return answer.json()

    def show(self, submission):
        """Return a submission as the API shows it."""
        with self.service.client() as client:
            client.cookies.update(self._cookies)
            answer = client.get(f"/api/submissions/{submission['submissionId']}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def wait(self, submission, *statuses):
        """Return the submission once it is in one of `statuses`; by default once it is finished."""
        wanted = statuses or ("COMPLETED", "FAILED")
        return wait_for(lambda: (found := self.show(submission))["status"] in wanted and found)

    def request_of(self, submission):
        """Return the request of a submission as it is in the outbox."""
        rows = self.rows(
            "SELECT payload FROM holdfast.outbox WHERE aggregate_id = %s"
            " AND message_type = 'grading.request' ORDER BY created_at LIMIT 1",
            submission["submissionId"],
        )
        return json.loads(rows[0][0])

    def rows(self, statement, *values):
        """Run a statement on the database, and return its rows."""
        with psycopg.connect(self.url) as connection:
            return connection.execute(statement, values).fetchall()

    def results(self, submission):
        """Return how many results are stored for a submission."""
        query = "SELECT count(*) FROM grading.results WHERE submission_id = %s"
        return self.rows(query, submission["submissionId"])[0][0]

    def end_deadline(self, submission):
        """Let the deadline of a submission have passed a second ago."""
        self.rows(
            "UPDATE grading.submissions SET deadline_at = extract(epoch FROM now()) - 1"
            " WHERE id = %s RETURNING id",
            submission["submissionId"],
        )

    def expire(self):
        """Run the deadlines' scheduler once; return how many submissions it has failed."""

        async def once():
            async with Engine(self.url, apps=[create({}).app]) as engine:
                return await expire(engine)

        return asyncio.run(once())

    # -- the broker ------------------------------------------------------------------------------

    def publish(self, queue, *bodies, headers=None):
        """Publish messages as another program would; return the id of the last one."""

        async def send():
            publisher = RabbitPublisher(self.broker.url())
            for number, body in enumerate(bodies):
                await publisher.send(
                    body, queue, message_id=f"{identifier}{number}", headers=headers
                )
            await publisher.close()

        identifier = secrets.token_hex(6)
        asyncio.run(send())
        return f"{identifier}{len(bodies) - 1}"

    def letters(self, **wanted):
        """Return the dead letters of `queue` with these headers, or called `message_id`."""
        name, queue = wanted.pop("message_id", None), wanted.pop("queue", None)
        found = asyncio.run(DeadLetterQueue(self.broker.url(), QueueSpec(DEAD_LETTERS)).list(1000))
        return [
            letter
            for letter in found
            if (name is None or letter.message_id == name)
            and (queue is None or letter.original_queue == queue)
            and all(letter.headers.get(key) == value for key, value in wanted.items())
        ]

    def letter(self, **wanted):
        """Wait for a dead letter, and return it: there is one."""
        (letter,) = wait_for(lambda: self.letters(**wanted))
        return letter

    def breaker(self):
        """Return the record of the language model's breaker."""
        with Engine(self.url).blocking() as engine:
            return engine.downstreams.get("llm")
