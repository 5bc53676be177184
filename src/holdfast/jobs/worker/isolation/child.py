"""The child's side: `python -m holdfast.jobs.worker.isolation.child FD`.

The main thread runs one attempt after another; another thread reads what the parent says, so that
a request to stop is heard while a handler runs, and ends the process once the parent is gone.
"""

import asyncio
import contextlib
import inspect
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.clock import SYSTEM_CLOCK
from holdfast.errors import ErrorCode
from holdfast.jobs.declare.context import CancelReason, JobContext
from holdfast.jobs.declare.kinds import Hook, JobKind
from holdfast.jobs.error_text import one_line
from holdfast.jobs.model import Claim
from holdfast.jobs.worker.failure import of_code, trouble_of
from holdfast.jobs.worker.isolation import limits
from holdfast.jobs.worker.isolation.address import Address, load_kind
from holdfast.jobs.worker.isolation.frames import (
    FrameKind,
    dump_trouble,
    load_claim,
    pack,
    receive,
)
from holdfast.jobs.worker.threads import end_copy

_NO_MEMORY = pack(FrameKind.TROUBLE, dump_trouble(of_code(ErrorCode.MEMORY_ERROR)))
"""Made beforehand: when it is needed there is no memory to make it."""

_PROGRESS_EVERY = 0.1
"""Seconds between two words on progress; the parent writes them down less often still."""


class Child:
    """One child process's life.

    Args:
        connection: the way to the parent.
        on_gone: called from the listening thread once the parent is gone.
    """

    def __init__(self, connection: socket.socket, on_gone: Callable[[], None]) -> None:
        self._connection = connection
        self._on_gone = on_gone
        self._sending = threading.Lock()
        self._jobs: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._context: JobContext | None = None
        self._task: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sent_at = -_PROGRESS_EVERY

    def live(self) -> None:
        """Set up, then run attempts until the parent is gone."""
        setup = receive(self._connection)
        if setup is None:
            return
        fields = setup[1]
        try:
            kind = _set_up(fields)
        except BaseException as error:
            self._send(FrameKind.TROUBLE, {"message": one_line(error)})
            return
        self._send(FrameKind.READY, None)
        self.serve(kind, fields["cpu_seconds"], fields["output_bytes"])

    def serve(self, kind: JobKind, cpu_seconds: float | None, output_bytes: int) -> None:
        """Run attempts of `kind` until the parent is gone."""
        threading.Thread(target=self._listen, name="holdfast-parent", daemon=True).start()
        while (job := self._jobs.get()) is not None:
            limits.allow_cpu(cpu_seconds)
            self._run(kind, load_claim(job), output_bytes)

    def progress_noted(self, context: JobContext) -> None:
        """Send on what the handler says of its progress: soon, but not each time."""
        wait = self._sent_at + _PROGRESS_EVERY - SYSTEM_CLOCK.monotonic()
        if wait > 0:
            later = threading.Timer(wait, self._send_progress, (context,))
            later.daemon = True
            # Where there is no room for a thread more it is sent now.
            with contextlib.suppress(RuntimeError, MemoryError):
                later.start()
                return
        self._send_progress(context)

    def _send_progress(self, context: JobContext) -> None:
        with self._sending:
            taken = context.take_progress()
            if taken is None or context is not self._context:
                return
            self._sent_at = SYSTEM_CLOCK.monotonic()
            with contextlib.suppress(OSError):
                self._connection.sendall(pack(FrameKind.PROGRESS, list(taken)))

    # -- one attempt ---------------------------------------------------------------------------

    def _run(self, kind: JobKind, claim: Claim, output_bytes: int) -> None:
        self._context = context = JobContext(claim, kind, self, SYSTEM_CLOCK)
        process = os.getpid()
        try:
            try:
                text = self._call(kind, claim, context)
            finally:
                end_copy(process)
                # A word on this attempt after its answer would be taken for one on the next.
                with self._sending:
                    self._context = None
            if len(text) > output_bytes or len(text.encode()) > output_bytes:
                message = f"the result is larger than {output_bytes} bytes"
                self._send(FrameKind.TROUBLE, dump_trouble(of_code(ErrorCode.TOO_LARGE, message)))
            else:
                self._send(FrameKind.RESULT, text)
        except BaseException as error:
            self._tell_error(kind, error)

    def _tell_error(self, kind: JobKind, error: BaseException) -> None:
        if not isinstance(error, MemoryError):
            with contextlib.suppress(MemoryError):
                trouble = trouble_of(error, kind, SYSTEM_CLOCK.wall())
                self._send(FrameKind.TROUBLE, dump_trouble(trouble))
                return
        # The traceback keeps alive what has filled the memory.
        error.__traceback__ = None
        with self._sending:
            self._connection.sendall(_NO_MEMORY)

    def _call(self, kind: JobKind, claim: Claim, context: JobContext) -> str:
        handler, arguments = kind.handler, None
        if handler.takes_arguments:
            arguments = handler.arguments.decode(claim.arguments)
        value = None
        if kind.existing is not None and kind.asks_existing(claim):
            value = self._ask_existing(kind.existing, context, arguments)
        if value is None:
            value = handler.call(context, arguments)
            if inspect.isawaitable(value):
                value = self._finish(value)
        return handler.results.encode(value)

    def _ask_existing(self, hook: Hook, context: JobContext, arguments: Any) -> Any:
        answer = hook.call(context, arguments)
        return self._finish(answer) if inspect.isawaitable(answer) else answer

    def _finish(self, coroutine: Any) -> Any:
        with asyncio.Runner() as runner:
            return runner.run(self._watched(coroutine))

    async def _watched(self, coroutine: Any) -> Any:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        try:
            return await coroutine
        finally:
            self._loop = self._task = None

    # -- the parent ----------------------------------------------------------------------------

    def _listen(self) -> None:
        while True:
            try:
                frame = receive(self._connection)
            except OSError:
                frame = None
            if frame is None:
                self._jobs.put(None)
                self._on_gone()
                return
            kind, body = frame
            if kind is FrameKind.JOB:
                self._jobs.put(body)
            elif kind is FrameKind.CANCEL:
                self._cancel(CancelReason(body))

    def _cancel(self, reason: CancelReason) -> None:
        context, loop, task = self._context, self._loop, self._task
        if context is not None:
            context.request_cancel(reason)
        if loop is not None and task is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)

    def _send(self, kind: FrameKind, body: object) -> None:
        data = pack(kind, body)
        with self._sending:
            self._connection.sendall(data)


def _set_up(fields: dict[str, Any]) -> JobKind:
    sys.path[:] = fields["path"]
    _die_with_parent()
    # Where memory runs out for everyone, this is the process that can best be spared.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("800", "ascii")
    kind = load_kind(Address(**fields["address"]))
    limits.apply_to_process(fields["memory_bytes"], fields["file_bytes"])
    return kind


def _die_with_parent() -> None:
    """Ask Linux to kill this process with its parent, even while a handler blocks all threads."""
    with contextlib.suppress(OSError, AttributeError):
        import ctypes

        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL, 0, 0, 0)


def _end(parent: int) -> None:
    """End this process, whose way to its parent is closed."""
    if os.getppid() == parent:
        # The parent ends what this process has started. It must not take it for killed.
        os._exit(71)
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    """Serve the parent at the other end of the socket that the command line names."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    # A Ctrl-C at the terminal is the worker's to handle.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    Child(connection, lambda: _end(parent)).live()


if __name__ == "__main__":
    main()
