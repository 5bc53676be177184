"""Processes beside the server: started before it, restarted when they end, stopped after it."""

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Sequence

from holdfast.clock import Clock
from holdfast.http import Sidecar

_log = logging.getLogger("holdfast.serve")
_READY_SECONDS = 30.0
_END_SECONDS = 8.0
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 10.0
_STEADY_SECONDS = 60.0
"""A process that ran this long did start: its next restart waits the shortest time again."""


class Sidecars:
    """Run `sidecars` while the block runs.

    They do not get the terminal's Ctrl-C: jobs that are being finished still need them.
    """

    def __init__(self, sidecars: Sequence[Sidecar], clock: Clock) -> None:
        self._runs = [_SidecarProcess(sidecar, clock) for sidecar in sidecars]

    async def __aenter__(self) -> "Sidecars":
        """Start them, and wait until each is ready, for a while."""
        for run in self._runs:
            run.start()
        try:
            for run in self._runs:
                await run.wait_until_ready()
        except asyncio.CancelledError:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """End them."""
        await asyncio.gather(*(run.stop() for run in self._runs))

    def missing(self) -> str | None:
        """Return a line that names a sidecar that is not running, or None."""
        for run in self._runs:
            if not run.is_ready:
                return f"the {run.name} is not running"
        return None


class _SidecarProcess:
    def __init__(self, sidecar: Sidecar, clock: Clock) -> None:
        self._sidecar = sidecar
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self._sidecar.name

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep_running())

    async def wait_until_ready(self) -> None:
        try:
            async with asyncio.timeout(_READY_SECONDS):
                await self._ready.wait()
        except TimeoutError:
            # It may come up later; what needs it is held until then.
            _log.warning("the %s is not ready after %g s", self.name, _READY_SECONDS)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_END_SECONDS):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _keep_running(self) -> None:
        wait = _FIRST_WAIT
        while True:
            began = self._clock.monotonic()
            status = await self._run_once()
            self._ready.clear()
            if self._clock.monotonic() - began >= _STEADY_SECONDS:
                wait = _FIRST_WAIT
            _log.warning(
                "the %s ended with status %s; started again in %g s", self.name, status, wait
            )
            await self._clock.sleep_async(wait)
            wait = min(_LONGEST_WAIT, wait * 2)

    async def _run_once(self) -> int:
        sidecar = self._sidecar
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "holdfast.cli.parent_watch", sidecar.module, *sidecar.arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        while line := await process.stdout.readline():
            text = line.decode("utf-8", "replace").rstrip()
            _log.info("%s", text)
            if sidecar.ready in text:
                if sidecar.on_ready is not None:
                    sidecar.on_ready(text)
                self._ready.set()
        return await process.wait()
