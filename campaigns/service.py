"""`holdfast serve` as a process of its own, killed and restarted on the same folder and store."""

import contextlib
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import httpx

SHORT_LEASES = {"LEASE_MS": "2000", "LEASE_EXTEND_MS": "400"}
"""Settings with which the jobs of a killed worker are soon rescued."""
_START = 60.0


class ServiceProcess:
    """The service: its server, its worker and the processes that they start.

    A context manager, which starts it and at the end stops it with SIGTERM.

    Args:
        app: the app to serve, as `holdfast serve` names it.
        folder: holds the data and the log of the service.
        url: the address of the store.
        settings: more of its environment.
    """

    def __init__(self, app: str, folder: Path, url: str, settings: Mapping[str, str]) -> None:
        self._app = app
        self._folder = folder
        self._log = folder / "service.log"
        self._environment = {
            **os.environ,
            # Find the app even if it is not installed.
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "HOLDFAST_DATABASE_URL": url,
            "HOLDFAST_DATA_DIR": str(folder / "data"),
            "PORT": "0",
            **settings,
        }
        self.url = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, and wait until it answers requests at `url`.

        Raises:
            RuntimeError: it did not start; the message has the end of its log.
        """
        command = [sys.executable, "-m", "holdfast", "serve", self._app]
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment,
        )
        found: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(self._process, found), daemon=True).start()
        with contextlib.suppress(queue.Empty):
            if url := found.get(timeout=_START):
                self.url = url
                return
        self._process.kill()
        raise RuntimeError(f"the service did not start: {self._log.read_text('utf-8')[-2000:]}")

    def _read(self, process: "subprocess.Popen[str]", found: "queue.Queue[str]") -> None:
        """Copy the output to the log; pass the address on, or an empty string at the end."""
        assert process.stdout is not None
        with process.stdout as output, self._log.open("a", encoding="utf-8") as log:
            for line in output:
                log.write(line)
                log.flush()
                if line.startswith("Holdfast is at "):
                    found.put(line.split()[-1])
        found.put("")

    def stop(self) -> None:
        """Stop it with SIGTERM, and wait until it has ended."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(_START)

    def kill(self, rng: random.Random) -> None:
        """Kill the server and, in half of the cases, its child processes with it."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in [pid, *(map(int, children) if rng.random() < 0.5 else ())]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        self._process.wait()

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._process.pid

    def client(self, **headers: str) -> httpx.Client:
        """Return a client of the service as it runs now; a restart changes the address."""
        return httpx.Client(
            base_url=self.url,
            trust_env=False,
            verify=False,  # noqa: S501 - no TLS here, and loading certificates takes long
            timeout=30,
            headers=headers,
        )

    def files(self, folder: str) -> list[str]:
        """Return the names of the files in a folder of the service's own."""
        found = self._folder / "data" / "files" / folder
        return [each.name for each in found.iterdir()] if found.exists() else []


def until(holds: Callable[[], bool], seconds: float) -> bool:
    """Wait until `holds`, at most `seconds`; return whether it did."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.5)
    return True
