"""The parent's side of one child process."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from dataclasses import asdict

from holdfast.errors import ErrorCode
from holdfast.jobs.declare.context import CancelReason
from holdfast.jobs.error_text import clean
from holdfast.jobs.worker.failure import Trouble, of_code
from holdfast.jobs.worker.isolation.address import Address
from holdfast.jobs.worker.isolation.frames import (
    BrokenFrame,
    FrameKind,
    dump_claim,
    load_progress,
    load_trouble,
    pack,
    read_frame,
)
from holdfast.jobs.worker.isolation.limits import ChildLimits
from holdfast.jobs.worker.run import Run

_LAST_BREATH = 1.0
"""Seconds that a child whose pipe is closed may take to end by itself."""
_AT_ONCE = (CancelReason.TIMEOUT, CancelReason.LEASE_LOST)


class ChildFailed(Exception):
    """A child could not be started; the message says why."""


class ChildProcess:
    """A child that serves one kind, one attempt at a time, in a process group of its own."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        limits: ChildLimits,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._limits = limits
        self._jobs = 0
        self._spent = False
        self._killed = False

    @classmethod
    async def start(
        cls, address: Address, limits: ChildLimits, start_seconds: float
    ) -> "ChildProcess":
        """Start a child and wait until it has found its kind.

        Raises:
            ChildFailed: it has not, or took longer than `start_seconds`.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            # The streams first: once there is a process, nothing may come between it and us.
            reader, writer = await asyncio.open_connection(sock=ours)
            try:
                process = await _spawn(theirs.fileno())
            except BaseException:
                writer.close()
                raise
        child = cls(process, reader, writer, limits)
        try:
            async with asyncio.timeout(start_seconds):
                await child._set_up(address)
        except TimeoutError:
            await child.close()
            raise ChildFailed(f"the child process did not start in {start_seconds:g} s") from None
        except BaseException:
            await child.close()
            raise
        return child

    @property
    def pid(self) -> int:
        """The process's id, which is also that of its group."""
        return self._process.pid

    @property
    def usable(self) -> bool:
        """Whether it may be given another attempt."""
        alive = self._process.returncode is None and not self._reader.at_eof()
        return alive and not self._spent and self._jobs < self._limits.jobs

    async def run(self, run: Run) -> str | Trouble:
        """Run an attempt; return its result as JSON text, or what went wrong."""
        self._jobs += 1
        # Until the answer is there it must not be used again, whatever becomes of this task.
        self._spent = True
        try:
            self._writer.write(pack(FrameKind.JOB, dump_claim(run.claim)))
            await self._writer.drain()
            answer = await self._answer(run)
        except BrokenFrame as error:
            self.kill()
            return of_code(ErrorCode.UNKNOWN, f"the child process answered with {error}")
        except (asyncio.IncompleteReadError, ConnectionError):
            return await self._obituary()
        out_of_memory = (
            isinstance(answer, Trouble) and answer.diagnosis.code is ErrorCode.MEMORY_ERROR
        )
        self._spent = run.cut is not None or out_of_memory
        return answer

    def ask(self, reason: CancelReason) -> None:
        """Ask the attempt to stop; where its time is up or its lease lost, end it now."""
        if reason in _AT_ONCE:
            self.kill()
            return
        self._spent = True
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._writer.write(pack(FrameKind.CANCEL, str(reason)))

    def kill(self) -> None:
        """End the child and everything in its process group, now."""
        self._spent = True
        if self._process.returncode is None:
            self._killed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """End it and wait until it is gone."""
        if self._process.returncode is None:
            self.kill()
        self._writer.close()
        await self._process.wait()

    async def _set_up(self, address: Address) -> None:
        limits = self._limits
        fields = {
            "address": asdict(address), "path": sys.path, "memory_bytes": limits.memory_bytes,
            "cpu_seconds": limits.cpu_seconds, "output_bytes": limits.output_bytes,
            "file_bytes": limits.file_bytes,
        }  # fmt: skip
        try:
            self._writer.write(pack(FrameKind.SETUP, fields))
            await self._writer.drain()
            kind, body = await read_frame(self._reader, self._limits.output_bytes)
        except (asyncio.IncompleteReadError, ConnectionError, BrokenFrame):
            raise ChildFailed("the child process ended while it started") from None
        if kind is not FrameKind.READY:
            reason = body.get("message", "") if isinstance(body, dict) else ""
            raise ChildFailed(clean(f"the child process could not start: {reason}"))

    async def _answer(self, run: Run) -> str | Trouble:
        while True:
            kind, body = await read_frame(self._reader, self._limits.output_bytes)
            if kind is FrameKind.RESULT:
                assert isinstance(body, str)
                return body
            if kind is FrameKind.TROUBLE:
                return load_trouble(body)
            if kind is not FrameKind.PROGRESS:
                raise BrokenFrame(f"a frame that only a parent sends: {kind.name}")
            run.context.progress(*load_progress(body))

    async def _obituary(self) -> Trouble:
        try:
            async with asyncio.timeout(_LAST_BREATH):
                status = await self._process.wait()
        except TimeoutError:
            # It lives on, deaf and dumb.
            self.kill()
            await self._process.wait()
            status = None
        # What it started may outlive it.
        self.kill()
        if status is None or (status == -signal.SIGKILL and self._killed):
            return of_code(ErrorCode.UNKNOWN, "the child process closed its pipe and was ended")
        if status == -signal.SIGXCPU:
            seconds = self._limits.cpu_seconds or 0.0
            message = f"more than {seconds:g} s of processor time were used"
            return of_code(ErrorCode.TIMEOUT, message, final=True)
        if status == -signal.SIGKILL:
            message = "the child process was killed, most likely for want of memory"
            return of_code(ErrorCode.MEMORY_ERROR, message)
        if status < 0:
            name = signal.Signals(-status).name
            return of_code(ErrorCode.UNKNOWN, f"the child process died of {name}")
        return of_code(ErrorCode.UNKNOWN, f"the child process ended itself with status {status}")


async def _spawn(descriptor: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "holdfast.jobs.worker.isolation.child",
        str(descriptor),
        stdin=asyncio.subprocess.DEVNULL,
        pass_fds=(descriptor,),
        start_new_session=True,
        env=_environment(),
    )


def _environment() -> dict[str, str]:
    """Return the environment of a child: it must find this very package, wherever that is."""
    root = os.path.dirname(os.path.dirname(sys.modules["holdfast"].__file__ or ""))  # noqa: PTH120
    path = os.environ.get("PYTHONPATH")
    return os.environ | {"PYTHONPATH": root if not path else os.pathsep.join((root, path))}
