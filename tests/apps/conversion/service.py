"""`holdfast serve` in real processes: start, request, kill, restart."""

import contextlib
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
from tests.apps.conversion.gateway_process import environment
from tests.apps.conversion.pdf_writer import Text, document

SOON = 60.0
# No TLS here, and loading the certificates takes 30 ms for each client.
PLAIN = {"trust_env": False, "verify": False}
APP = "holdfast_conversion.app:create"
TOKEN = "the admin token of the tests"
QUICK = {
    "RETRY_BASE_DELAY": "50",
    "RETRY_MAX_DELAY": "200",
    "CIRCUIT_TIMEOUT": "60000",
    "HOLDFAST_ADMIN_TOKEN": TOKEN,
}


def pdf(words: str) -> bytes:
    return document([Text(72, 700, words)])


class Service:
    """A service on one data folder; it can be stopped and restarted."""

    def __init__(self, folder: Path, *options: str, **settings: str) -> None:
        self.folder = folder
        self.options = options
        self.settings = {**QUICK, **settings}
        self.process: subprocess.Popen | None = None
        self._clients: list[httpx.Client] = []

    def __enter__(self) -> "Service":
        return self.start()

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()
        if self.process is not None:
            self.stop()

    def start(self) -> "Service":
        """Start it, and wait until it prints its address."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "serve", APP, *self.options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env={**environment(), "PORT": "0", "HOLDFAST_DATA_DIR": str(self.folder / "data")}
            | self.settings,
        )
        self.output: list[str] = []
        lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(self.process, lines))
        self._reader.start()
        while (line := lines.get(timeout=SOON)) is not None:
            if line.startswith("Holdfast is at "):
                self.url = line.split()[-1]
                self.admin_link = (lines.get(timeout=SOON) or "").split()[4]
                self.client = self.browser()
                return self
        raise AssertionError("the service did not start:\n" + "\n".join(self.output))

    def _read(self, process: subprocess.Popen, lines: "queue.Queue[str | None]") -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self.output.append(line.rstrip())
                lines.put(line.rstrip())
        lines.put(None)

    def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        """Send a signal, wait, and return the exit status."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(SOON)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the service did not end:\n" + "\n".join(self.output)) from None
        finally:
            self._reader.join(SOON)

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self._reader.join(SOON)

    # -- requests ------------------------------------------------------------------------------

    def browser(self, **headers: str) -> httpx.Client:
        client = httpx.Client(base_url=self.url, timeout=60, headers=headers, **PLAIN)
        self._clients.append(client)
        return client

    def admin(self) -> httpx.Client:
        return self.browser(authorization=f"Bearer {TOKEN}")

    def upload(self, content, mapping="text", filename="a.pdf", client=None) -> httpx.Response:
        data = {} if mapping is None else {"mapping": mapping}
        return (client or self.client).post(
            "/api/upload", data=data, files={"file": (filename, content, "application/pdf")}
        )

    def job(self, job_id: str, client=None) -> dict:
        answer = (client or self.client).get(f"/api/jobs/{job_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()["job"]

    def wait(self, job_id: str, *statuses: str, client=None, seconds=SOON) -> dict:
        """Return the job once it is in one of `statuses`; by default once it is finished."""
        wanted = statuses or ("complete", "failed", "cancelled")
        return self.until(
            lambda: (job := self.job(job_id, client))["status"] in wanted and job, seconds
        )

    def until(self, found, seconds=SOON):
        """Wait until `found()` is true; return its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if value := found():
                return value
            time.sleep(0.05)
        raise AssertionError("it did not happen:\n" + "\n".join(self.output[-20:]))

    def files(self, folder: str) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return sorted(each.name for each in (self.folder / "data/files" / folder).iterdir())
        return []
