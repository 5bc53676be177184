"""Grading with a broker, under faults: workers and the server killed, broker and store restarted.

Clients send each submission until it is acknowledged. The language model stands outside of the
system and keeps the account: it charges once for each idempotency key, answers some calls late,
fails some, and asks for a wait with others. Two Celery workers, and the server with its relay and
its consumer of callbacks, are killed every few seconds; some worker processes die just before a
task's commit. The broker is restarted and killed, and the server of the store is restarted.

At the end each submission must be completed once, charged once, and stored with one result; none
was called for before the model allowed it; nothing is left in a queue.
"""

import asyncio
import contextlib
import queue
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx
from tests.support.grading_processes import CeleryWorker, ScriptedModel
from tests.support.programs import Missing
from tests.support.rabbitmq_server import RabbitServer

from campaigns.fleet import environment
from campaigns.plan import CampaignOutcome, Plan
from campaigns.service import ServiceProcess, until
from campaigns.temporary_store import TemporaryStore, temporary_store
from holdfast.bootstrap import Engine
from holdfast.messaging import DeadLetterQueue
from holdfast.outbox import Backlog
from holdfast.testing.downstream import slow, status
from holdfast_grading.app import create
from holdfast_grading.messages import DEAD_LETTERS

_APP = "holdfast_grading.app:create"
CRASHES = "CAMPAIGN_CRASHES"
"""The share of the tasks' transactions in which their process dies: for `grading_worker`."""
_SESSIONS = 10
"""A session may make 600 writes at once."""
_RETRY_AFTER = 3.0
_WORKER = {
    "LEASE_MS": "1500",
    "RETRY_MAX_ATTEMPTS": "30",
    "RETRY_BASE_DELAY": "200",
    "RETRY_MAX_DELAY": "5000",
}
_POSTGRES_RESULTS = "SELECT submission_id FROM grading.results"
_SQLITE_RESULTS = _POSTGRES_RESULTS.replace("grading.", "grading_")


def run(plan: Plan) -> CampaignOutcome:
    """Run the campaign."""
    try:
        with RabbitServer() as broker:
            return run_with(plan, broker)
    except Missing as missing:
        return CampaignOutcome(skipped=str(missing))


def run_with(plan: Plan, broker: RabbitServer) -> CampaignOutcome:
    """Run the campaign on `broker`, which is killed and started again."""
    with (
        ScriptedModel() as model,
        temporary_store(plan.store, plan.folder, apps=[create({}).app]) as target,
    ):
        return _Run(plan, broker, model, target).run()


class _Run:
    def __init__(
        self, plan: Plan, broker: RabbitServer, model: ScriptedModel, target: TemporaryStore
    ) -> None:
        self._plan = plan
        self._rng = plan.rng()
        self._broker = broker
        self._model = model
        self._target = target
        self._settings = {
            "RABBITMQ_URL": broker.url(),
            "CHATMOCK_BASE_URL": model.url,
            "HOLDFAST_DATABASE_URL": target.url,
            # Longer than any run: what is not graded by then would be a failure of its own.
            "SLA_WRITING_MS": "36000000",
        }
        self._service = ServiceProcess(_APP, plan.folder, target.url, self._settings)
        self._crashes = str(plan.pick(2, 10) / 100)
        self._workers: dict[str, CeleryWorker] = {}
        self._faults: Counter[str] = Counter()

    def run(self) -> CampaignOutcome:
        outcome = CampaignOutcome()
        marks = [str(number) for number in range(self._plan.pick(5000, 60))]
        self._script_model(marks)
        clients, settle = Clients(self._service), self._plan.pick(600, 60)
        with self._fleet(), clients.running():
            self._inject_faults(clients, marks)
            acknowledged = until(lambda: len(clients.ids) == len(marks), settle)
            outcome.expect(acknowledged, "not every submission was acknowledged in time")
            settled = until(lambda: self._unfinished(clients) == 0, settle)
            outcome.expect(settled, f"{self._unfinished(clients)} submissions are not finished")
            shown = clients.read_all()
            outcome.expect(until(self._is_idle, 30.0), "messages are left in the outbox")
        outcome.findings += clients.refused
        outcome.findings += judge(clients.ids, shown, self._results(), self._model.charged)
        outcome.findings += [
            f"early: {mark} was called for {seconds:.1f} s before the model allowed it"
            for mark, seconds in self._model.early
        ]
        letters = asyncio.run(DeadLetterQueue(self._broker.url(), DEAD_LETTERS).list(10))
        outcome.findings += [f"dead letter: {dict(letter.headers)}" for letter in letters]
        outcome.figures |= {
            "submissions": len(shown),
            "calls": self._model.calls.total(),
            "charged": self._model.charged.total(),
            "requests_repeated": clients.repeated,
            **{f"{name}_stopped": count for name, count in sorted(self._faults.items())},
        }
        return outcome

    def _script_model(self, marks: Sequence[str]) -> None:
        """Let some calls be slow, some fail, and some be told to wait."""
        share = self._plan.pick(3, 15) / 100
        for mark in marks:
            chance = self._rng.random() / share
            if chance < 1:
                self._model.plan(mark, slow(2.0, self._model.graded))
            elif chance < 2:
                self._model.ask_to_wait(mark, _RETRY_AFTER)
            elif chance < 2.5:
                self._model.plan(mark, status(503))

    # -- processes and faults --------------------------------------------------------------------

    @contextlib.contextmanager
    def _fleet(self) -> Iterator[None]:
        with self._service:
            try:
                for name in ("one", "two"):
                    self._start_worker(name)
                yield
            finally:
                for worker in self._workers.values():
                    worker.kill()

    def _start_worker(self, name: str) -> None:
        self._workers[name] = CeleryWorker(
            name,
            {**environment(), **self._settings, **_WORKER, CRASHES: self._crashes},
            self._plan.folder / f"worker-{name}.log",
            app="campaigns.grading_worker",
        )

    def _inject_faults(self, clients: "Clients", marks: Sequence[str]) -> None:
        """Send a share of the submissions in each round, and kill something in the middle of it."""
        rounds = self._plan.pick(75, 6)
        others = {
            rounds // 4: self._restart_broker,
            rounds // 2: self._restart_store,
            3 * rounds // 4: self._kill_broker,
        }
        for number in range(rounds):
            clients.add(marks[number::rounds])
            time.sleep(self._rng.uniform(0.0, 2.0))
            if number in others:
                others[number]()
            elif number % 3 == 2:
                self._kill_server()
            time.sleep(self._rng.uniform(0.0, 2.0))
            self._kill_worker()

    def _kill_worker(self) -> None:
        name = self._rng.choice(["one", "two"])
        self._workers[name].kill()
        self._faults["workers"] += 1
        self._start_worker(name)

    def _kill_server(self) -> None:
        self._service.kill(self._rng)
        self._faults["servers"] += 1
        self._service.start()

    def _restart_broker(self) -> None:
        self._broker.stop()
        self._faults["brokers"] += 1
        self._broker.start()

    def _kill_broker(self) -> None:
        # Not the first time: RabbitMQ may lose a queue that is new when its node is killed.
        self._broker.kill()
        self._faults["brokers"] += 1
        self._broker.start()

    def _restart_store(self) -> None:
        if self._target.server is not None:
            self._target.server.restart()
            self._faults["stores"] += 1

    # -- what is known at the end ----------------------------------------------------------------

    def _unfinished(self, clients: "Clients") -> int:
        """Return how many of the acknowledged submissions are not finished; -1 if it is unknown."""
        try:
            return sum(
                each["status"] not in {"COMPLETED", "FAILED"}
                for each in clients.read_all().values()
            )
        except httpx.HTTPError:
            return -1

    def _is_idle(self) -> bool:
        backlog = asyncio.run(self._backlog())
        return backlog.pending == 0 and backlog.failed == 0

    async def _backlog(self) -> Backlog:
        async with Engine(self._target.url) as engine:
            return await engine.outbox.backlog()

    def _results(self) -> Counter[str]:
        """Return how many results each submission has, from the database itself."""

        async def read() -> list[tuple[Any, ...]]:
            async with Engine(self._target.url) as engine:
                is_sqlite = engine.database.dialect == "sqlite"
                return await engine.database.fetch(
                    _SQLITE_RESULTS if is_sqlite else _POSTGRES_RESULTS
                )

        return Counter(submission for (submission,) in asyncio.run(read()))


class Clients:
    """Sends submissions from several sessions, each until it is acknowledged."""

    def __init__(self, service: ServiceProcess) -> None:
        self._service = service
        self._waiting: queue.Queue[str] = queue.Queue()
        self._stop = threading.Event()
        self._cookies: list[dict[str, str]] = [{} for _ in range(_SESSIONS)]
        self.ids: dict[str, str] = {}
        """The acknowledged id of each submission, by its mark."""
        self.refused: list[str] = []
        self.repeated = 0

    def add(self, marks: Sequence[str]) -> None:
        """Have these sent in the background."""
        for mark in marks:
            self._waiting.put(mark)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Send in the background while the block runs."""
        threads = [
            threading.Thread(target=self._send_all, args=(cookies,)) for cookies in self._cookies
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def read_all(self) -> dict[str, dict[str, Any]]:
        """Return all submissions of all sessions as the API shows them, by id.

        Raises:
            httpx.HTTPError: the server does not answer just now.
        """
        found: dict[str, dict[str, Any]] = {}
        for cookies in self._cookies:
            with self._service.client() as client:
                client.cookies.update(cookies)
                cursor = ""
                while True:
                    page = (
                        client.get("/api/submissions", params={"limit": 200, "cursor": cursor})
                        .raise_for_status()
                        .json()
                    )
                    found |= {each["submissionId"]: each for each in page["submissions"]}
                    cursor = page["nextCursor"] or ""
                    if not cursor:
                        break
        return found

    def _send_all(self, cookies: dict[str, str]) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(queue.Empty):
                self._send(self._waiting.get(timeout=0.1), cookies)

    def _send(self, mark: str, cookies: dict[str, str]) -> None:
        body = {"skill": "writing", "text": f"An essay, mark-{mark}.", "requestId": f"r-{mark}"}
        while not self._stop.is_set():
            try:
                with self._service.client() as client:
                    client.cookies.update(cookies)
                    if not cookies:
                        client.get("/api/submissions").raise_for_status()
                        cookies |= dict(client.cookies)
                    answer = client.post("/api/submissions", json=body)
            except httpx.HTTPError:
                # It may be stored or not: send it again.
                self.repeated += 1
                self._stop.wait(0.2)
                continue
            if answer.status_code in {200, 202}:
                self.ids[mark] = answer.json()["submissionId"]
                return
            if answer.status_code not in {429, 503}:
                self.refused.append(f"unexpected: {mark}: {answer.text[:200]}")
                return
            self._stop.wait(0.2)


def judge(
    ids: Mapping[str, str],
    shown: Mapping[str, Mapping[str, Any]],
    results: Mapping[str, int],
    charged: Mapping[str, int],
) -> list[str]:
    """Return what is wrong: `ids` were acknowledged, by mark; the model has `charged` for marks."""
    findings = []
    for mark, submission in ids.items():
        found = shown.get(submission)
        if found is None or found["status"] != "COMPLETED":
            ended = "missing" if found is None else f"{found['status']} {found['failureReason']}"
            findings.append(f"lost: {mark} is {ended}")
        if results.get(submission, 0) > 1:
            findings.append(f"duplicate: {mark} has {results[submission]} results")
        if charged.get(mark, 0) != 1:
            findings.append(f"charged: {mark} was charged {charged.get(mark, 0)} times")
    findings += [
        f"duplicate: {each} was not acknowledged" for each in shown.keys() - set(ids.values())
    ]
    return findings
