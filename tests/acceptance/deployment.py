"""Server, worker and gateway in processes of their own, over one store and one folder."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
from tests.apps.conversion.gateway_process import environment
from tests.apps.conversion.service import APP, SOON, Service

from holdfast.testing.downstream import Behaviour, ok

XML = b'<?xml version="1.0"?><document/>'
GOOD = ok(XML, headers={"Content-Type": "application/xml"})

NO_BREAKER = {"CIRCUIT_THRESHOLD": "1000000", "CIRCUIT_WINDOW_MS": "1"}
"""Settings under which the breaker never opens."""


class WorkerProcess:
    """A `holdfast worker` process that can be killed and restarted."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self._folder = folder
        self._settings = settings
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "worker", APP],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self._folder,
            env={
                **environment(),
                "HOLDFAST_DATA_DIR": str(self._folder / "data"),
                **self._settings,
            },
        )
        self.output: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.output.append(line.rstrip())

    def end(self, how: signal.Signals) -> int:
        """Send a signal, wait, and return the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(SOON)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self._reader.join(SOON)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self.end(signal.SIGKILL)


class Deployment(Service):
    """A server without a worker, and `workers` workers beside it."""

    def __init__(self, folder: Path, *options: str, workers: int = 1, **settings: str) -> None:
        super().__init__(folder, "--no-worker", *options, **settings)
        self._wanted = workers
        self.workers: list[WorkerProcess] = []

    def __enter__(self) -> "Deployment":
        # The server makes the folder and the database.
        super().__enter__()
        for _ in range(self._wanted):
            self.add_worker()
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.end(signal.SIGTERM)
        super().__exit__()

    def add_worker(self) -> WorkerProcess:
        """Start one more worker."""
        self.workers.append(WorkerProcess(self.folder, self.settings))
        return self.workers[-1]

    def dismiss(self, worker: WorkerProcess) -> None:
        """End a worker, even one that has just been started, and remove it.

        Not by SIGINT: where a shell runs the tests in the background, programs ignore that until
        they handle it.
        """
        self.workers.remove(worker)
        worker.end(signal.SIGTERM)

    # -- requests ------------------------------------------------------------------------------

    def convert(self, content: bytes, client: httpx.Client | None = None) -> str:
        """Upload a PDF that is accepted; return the job's id."""
        answer = self.upload(content, client=client)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["job"]["id"])

    def attempts(self, job_id: str) -> list[dict]:
        answer = self.client.get(f"/api/jobs/{job_id}/events")
        assert answer.status_code == 200, answer.text
        return answer.json()["attempts"]

    def codes(self, job_id: str) -> list[str | None]:
        """Return the error codes of a job's attempts; None for a successful one."""
        return [each["error"] and each["error"]["code"] for each in self.attempts(job_id)]

    def events(self, job_id: str) -> list[str]:
        answer = self.client.get(f"/api/jobs/{job_id}/events")
        return [each["name"] for each in answer.json()["events"]]

    def downstream(self) -> dict:
        (found,) = self.client.get("/api/downstreams").json()["downstreams"]
        return found

    def results_of(self, job_id: str) -> list[str]:
        return [name for name in self.files("results") if name.startswith(f"{job_id}.")]


def counting(calls: "Calls", then: Behaviour) -> Behaviour:
    """Answer as `then` does, and count the call in `calls` while it runs."""

    async def behaviour(exchange):
        with calls:
            await then(exchange)

    return behaviour


class Calls:
    """Counts the calls in progress."""

    def __init__(self) -> None:
        self.now = self.most = self.total = 0

    def __enter__(self) -> None:
        self.now += 1
        self.total += 1
        self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        self.now -= 1
