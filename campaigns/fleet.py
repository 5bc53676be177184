"""The worker processes of a campaign."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import holdfast
from campaigns.ledger import ADDRESS, Ledger
from campaigns.recording_store import CRASH

ROOT = Path(__file__).parents[1]
SOURCE = Path(holdfast.__file__).parents[1]
"""The folder of the `holdfast` package under test; child processes import the same one."""

_OPTIONS = {"lease_seconds": 2.0, "extend_every": 0.4, "concurrency": 8}


def environment(**more: str) -> dict[str, str]:
    """Return the environment for a child process that imports the same engine."""
    path = f"{SOURCE}{os.pathsep}{ROOT}"
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **more}


class WorkerProcess:
    """One worker process. `crash` is the crash point that it was started with, or empty."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, crash: str) -> None:
        self.process = process
        self.log = log
        self.crash = crash
        self._is_ready = False

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def dead(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    async def ready(self) -> Self:
        """Wait until it runs."""
        assert self.process.stdout is not None
        if self._is_ready:
            return self
        line = await asyncio.to_thread(self.process.stdout.readline)
        if line != b"running\n":
            raise RuntimeError(f"a worker did not start:\n{self.log.read_text()[-2000:]}")
        self._is_ready = True
        return self

    def close(self) -> None:
        """Kill it if it still runs, and close its pipes."""
        if not self.dead:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Fleet:
    """All workers on one store, as a context manager that ends them."""

    def __init__(
        self,
        url: str,
        ledger: Ledger,
        folder: Path,
        *,
        module: str = "campaigns.worker_process",
        **options: Any,
    ) -> None:
        self._module = module
        self.workers: list[WorkerProcess] = []
        self.logs: list[Path] = []
        self._url = url
        self._ledger = ledger
        self._folder = folder
        self._options = {**_OPTIONS, **options}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in tuple(self.workers):
            self.remove(worker)

    def start(self, crash: str = "", url: str = "", **options: Any) -> WorkerProcess:
        """Start a worker without waiting for it.

        `crash` is `point:n`; `url` is the store's address, by default that of the fleet.
        """
        log = self._folder / f"worker-{len(self.logs)}.log"
        encoded = json.dumps({**self._options, **options})
        with log.open("wb") as stderr:
            process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", self._module, url or self._url, encoded],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment(**{ADDRESS: str(self._ledger.port), CRASH: crash}),
            )
        worker = WorkerProcess(process, log, crash)
        self.logs.append(log)
        self.workers.append(worker)
        return worker

    async def start_ready(self, count: int, **options: Any) -> None:
        """Start `count` workers and wait until all run."""
        for worker in [self.start(**options) for _ in range(count)]:
            await worker.ready()

    def remove(self, worker: WorkerProcess) -> None:
        """Kill a worker and remove it from the fleet."""
        worker.close()
        self.workers.remove(worker)

    async def stop_all(self, seconds: float = 15.0) -> list[int]:
        """Stop all workers with SIGTERM; return their exit statuses."""
        for worker in self.workers:
            worker.signal(signal.SIGTERM)
        return [await asyncio.to_thread(worker.process.wait, seconds) for worker in self.workers]


async def until(check: Callable[[], Awaitable[bool]], seconds: float, every: float = 0.05) -> bool:
    """Poll `check` until it is true; return whether that happened within `seconds`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not await check():
        if loop.time() > end:
            return False
        await asyncio.sleep(every)
    return True
