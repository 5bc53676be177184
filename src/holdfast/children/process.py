"""The parent's side of one child process."""

import asyncio
import contextlib
import functools
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from holdfast.children.child_limits import ChildLimits
from holdfast.children.frames import BrokenFrame, FrameKind, pack, read_frame

_log = logging.getLogger("holdfast.children")
_END_SECONDS = 5.0
"""Seconds that a child whose socket is closed may take to end by itself, on a busy machine too."""


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What a child serves.

    Args:
        target: `"module:load"`; the child calls `load(options)` before its limits hold, and serves
            with what that returns.
        options: handed to `load`; anything that JSON can say.
        limits: what it may use.
        confine: it may open no file, make no socket and start no process or thread once it is set
            up, and has no capabilities. It also gets neither the environment nor the standard
            streams of its parent.
        start_seconds: how long it may take to be set up.
    """

    target: str
    options: Any = None
    limits: ChildLimits = field(default_factory=ChildLimits)
    confine: bool = False
    start_seconds: float = 30.0


class ChildFailed(Exception):
    """A child could not be started; the message says why."""


class ChildLost(Exception):
    """A child was gone before it had the request; another may answer it."""


class Death(Enum):
    """What a child died of."""

    CPU_TIME = "cpu time"
    """Its request used more processor time than allowed."""
    KILLED = "killed"
    """SIGKILL from outside: usually the kernel's out-of-memory killer."""
    TERMINATED = "terminated"
    """SIGTERM: it was stopped from outside."""
    SIGNAL = "signal"
    """Another signal: it crashed."""
    EXIT = "exit"
    """It ended itself."""
    DETACHED = "detached"
    """It closed its socket and lived on, and was killed for that."""
    BROKEN_FRAME = "broken frame"
    """It sent an invalid frame, and was killed for that."""


class ChildDied(Exception):
    """A child died over a request; `detail` names the signal, the status or the broken frame."""

    def __init__(self, death: Death, detail: str) -> None:
        super().__init__(f"{death.value}: {detail}")
        self.death = death
        self.detail = detail


class ChildProcess:
    """A child that answers one request at a time, in a process group of its own."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        connection: socket.socket,
        limits: ChildLimits,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._connection = connection
        self._limits = limits
        self._requests = 0
        self._retired = False
        self._killed = False
        self.confined = False

    @classmethod
    async def start(cls, spec: ChildSpec) -> "ChildProcess":
        """Start a child and wait until it is set up.

        Raises:
            ChildFailed: it is not, or took longer than `spec.start_seconds`.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            # The streams first: once there is a process, nothing may come between it and us.
            reader, writer = await asyncio.open_connection(sock=ours)
            try:
                process = await _spawn(theirs.fileno(), spec)
            except BaseException:
                writer.close()
                raise
        child = cls(process, reader, writer, ours, spec.limits)
        try:
            async with asyncio.timeout(spec.start_seconds):
                await child._set_up(spec)
        except TimeoutError:
            await child.close()
            seconds = f"{spec.start_seconds:g} s"
            raise ChildFailed(f"the child process did not start in {seconds}") from None
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
        """Whether it may be given another request."""
        alive = self._process.returncode is None and not self._reader.at_eof()
        return alive and not self._retired and self._requests < self._limits.requests

    async def call(
        self,
        request: object,
        files: Sequence[int] = (),
        *,
        timeout: float | None = None,
        progress: Callable[[Any], object] | None = None,
    ) -> tuple[FrameKind, Any]:
        """Return the frame that answers `request`, an `ANSWER` or an `ERROR`.

        Args:
            request: anything that JSON can say.
            files: open files to hand over, as descriptors; the request must then be short.
            timeout: seconds after which the child is killed.
            progress: called with the body of each progress frame; it may raise `BrokenFrame`.

        Raises:
            ChildLost: it was gone before it had the request.
            ChildDied: it died over the request.
            TimeoutError: it took too long, and was killed.
        """
        self._requests += 1
        # Whatever becomes of this task, a child that has not answered is not used again.
        self._retired = True
        try:
            async with asyncio.timeout(timeout):
                await self._hand_over(pack(FrameKind.REQUEST, request), files)
                answer = await self._answer(progress)
        except TimeoutError:
            self.kill()
            raise
        except BrokenFrame as error:
            raise self.broken(error) from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise await self._post_mortem() from None
        self._retired = False
        return answer

    def retire(self) -> None:
        """Give it no further request."""
        self._retired = True

    def broken(self, error: BrokenFrame) -> ChildDied:
        """Kill a child that sent an invalid frame, and return the exception for it."""
        self.kill()
        return ChildDied(Death.BROKEN_FRAME, str(error))

    def cancel(self, reason: str) -> None:
        """Ask it to stop working on its request; it is not used again."""
        self._retired = True
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._writer.write(pack(FrameKind.CANCEL, reason))

    def kill(self) -> None:
        """End the child and everything in its process group, now."""
        self._retired = True
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

    async def _set_up(self, spec: ChildSpec) -> None:
        fields = {
            "target": spec.target, "options": spec.options, "limits": asdict(spec.limits),
            "confine": spec.confine, "path": sys.path,
        }  # fmt: skip
        try:
            self._writer.write(pack(FrameKind.SETUP, fields))
            await self._writer.drain()
            kind, body = await read_frame(self._reader, 0)
        except (asyncio.IncompleteReadError, ConnectionError, BrokenFrame):
            raise ChildFailed("the child process ended while it started") from None
        said = body if isinstance(body, dict) else {}
        if kind is not FrameKind.READY:
            raise ChildFailed(f"the child process could not start: {said.get('message', '')}")
        self.confined = said.get("confined") is True
        if spec.confine and not self.confined:
            _warn_of_no_filter()

    async def _hand_over(self, frame: bytes, files: Sequence[int]) -> None:
        try:
            sent = 0
            if files:
                # asyncio cannot send files. Nothing else waits to be written to an idle child.
                sent = socket.send_fds(self._connection, [frame], files)
            self._writer.write(frame[sent:])
            await self._writer.drain()
            kind, _ = await read_frame(self._reader, 0)
        except (asyncio.IncompleteReadError, OSError) as error:
            self.kill()
            raise ChildLost(repr(error)) from None
        if kind is not FrameKind.TAKEN:
            raise BrokenFrame(f"a {kind.name.lower()} frame before it had the request")

    async def _answer(self, progress: Callable[[Any], object] | None) -> tuple[FrameKind, Any]:
        while True:
            kind, body = await read_frame(self._reader, self._limits.output_bytes)
            if kind in (FrameKind.ANSWER, FrameKind.ERROR):
                return kind, body
            if kind is not FrameKind.PROGRESS or progress is None:
                raise BrokenFrame(f"a {kind.name.lower()} frame where an answer is due")
            progress(body)

    async def _post_mortem(self) -> ChildDied:
        try:
            async with asyncio.timeout(_END_SECONDS):
                status = await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()
            status = None
        # What it started may outlive it.
        self.kill()
        if status is None or (status == -signal.SIGKILL and self._killed):
            return ChildDied(Death.DETACHED, "it closed its socket")
        if status >= 0:
            return ChildDied(Death.EXIT, f"status {status}")
        deaths = {
            signal.SIGXCPU: Death.CPU_TIME,
            signal.SIGKILL: Death.KILLED,
            signal.SIGTERM: Death.TERMINATED,
        }
        number = signal.Signals(-status)
        return ChildDied(deaths.get(number, Death.SIGNAL), number.name)


@functools.cache  # once: every child of this machine is in the same position
def _warn_of_no_filter() -> None:
    _log.warning(
        "child processes have resource limits only: this system refuses the filter of system calls"
    )


async def _spawn(descriptor: int, spec: ChildSpec) -> asyncio.subprocess.Process:
    output = asyncio.subprocess.DEVNULL if spec.confine else None
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "holdfast.children.child", str(descriptor)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=(descriptor,),
        start_new_session=True,
        env=_environment(secrets=not spec.confine),
    )


def _environment(*, secrets: bool) -> dict[str, str]:
    """Return the environment of a child: it must find this very package, wherever that is."""
    kept = dict(os.environ) if secrets else {}
    kept |= {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
    root = os.path.dirname(os.path.dirname(sys.modules["holdfast"].__file__ or ""))  # noqa: PTH120
    path = kept.get("PYTHONPATH")
    return kept | {"PYTHONPATH": root if not path else os.pathsep.join((root, path))}
