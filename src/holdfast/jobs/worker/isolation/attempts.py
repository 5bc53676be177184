"""The child's side: run one attempt after another on the main thread.

Another thread reads what the parent sends, so that a request to stop reaches a running handler,
and ends the process once the parent is gone.
"""

import asyncio
import contextlib
import inspect
import os
import queue
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

from holdfast.children import ChildLimits, FrameKind
from holdfast.children.frames import pack, receive
from holdfast.clock import SYSTEM_CLOCK
from holdfast.errors import ErrorCode
from holdfast.jobs.declare.context import CancelReason, JobContext
from holdfast.jobs.declare.kinds import Hook, JobKind
from holdfast.jobs.declare.stored_arguments import decode_arguments
from holdfast.jobs.exceptions import ContextError
from holdfast.jobs.model import Claim
from holdfast.jobs.worker.failure import of_code, summarize
from holdfast.jobs.worker.isolation.address import Address, load_kind
from holdfast.jobs.worker.isolation.messages import dump_failure, load_claim
from holdfast.jobs.worker.threads import end_copy
from holdfast.jobs.worker.traceback_text import format_traceback
from holdfast.time_limit import RUNNING

_NO_MEMORY = pack(FrameKind.ERROR, dump_failure(of_code(ErrorCode.MEMORY_ERROR)))
"""Made beforehand: when it is needed there is no memory to make it."""

_NOT_HERE = '{} is not available with isolation="process", where the handler runs in a child: {}'

_PROGRESS_EVERY = 0.1
"""Seconds between two progress frames; the parent stores progress less often still."""


class Attempts:
    """Run attempts for the parent at the other end of a socket.

    Args:
        connection: the socket to the parent.
        on_gone: called from the reading thread once the parent is gone.
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

    def serve(self, kind: JobKind, limits: ChildLimits) -> None:
        """Run attempts of `kind` until the parent is gone."""
        threading.Thread(target=self._listen, name="holdfast-parent", daemon=True).start()
        while (job := self._jobs.get()) is not None:
            limits.allow_cpu()
            self._run(kind, load_claim(job), limits.output_bytes)

    def progress_noted(self, context: JobContext) -> None:
        """Send the handler's progress to the parent: soon, but not each time."""
        wait = self._sent_at + _PROGRESS_EVERY - SYSTEM_CLOCK.monotonic()
        if wait > 0:
            later = threading.Timer(wait, self._send_progress, (context,))
            later.daemon = True
            # Where no thread can be started it is sent now.
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

    # -- what a child process does not have ----------------------------------------------------

    def state_of(self, _context: JobContext) -> NoReturn:
        """Refuse: the lifespan runs in the worker's process."""
        raise ContextError(_NOT_HERE.format("ctx.state", "open what the handler needs itself"))

    def database_of(self, _context: JobContext) -> NoReturn:
        """Refuse: a connection belongs to one process."""
        advice = "read before the job is enqueued, and store in a job without isolation"
        raise ContextError(_NOT_HERE.format("ctx.database", advice))

    def engine_of(self, _context: JobContext) -> NoReturn:
        """Refuse: a child has no store."""
        advice = "use the engine in a job without isolation"
        raise ContextError(_NOT_HERE.format("ctx.engine", advice))

    def shared_rate(self, *_: object) -> NoReturn:
        """Refuse: a child has no store."""
        advice = "declare the rate on the downstream of the job"
        raise ContextError(_NOT_HERE.format("ctx.shared_rate()", advice))

    def new_job(self, *_: object) -> NoReturn:
        """Refuse: the worker would have to trust the child's jobs."""
        advice = "let a middleware enqueue after call_next(), with what the handler has returned"
        raise ContextError(_NOT_HERE.format("ctx.enqueue()", advice))

    def transaction(self, *_: object) -> NoReturn:
        """Refuse: a connection belongs to one process."""
        advice = "return what is to be stored, and store it in a job without isolation"
        raise ContextError(_NOT_HERE.format("ctx.transaction()", advice))

    # -- one attempt ---------------------------------------------------------------------------

    def _run(self, kind: JobKind, claim: Claim, output_bytes: int) -> None:
        self._context = context = JobContext(claim, kind, self, SYSTEM_CLOCK)
        RUNNING.set(context)
        process = os.getpid()
        try:
            try:
                text = self._call(kind, claim, context)
            finally:
                end_copy(process)
                # Progress sent after the answer would be taken for that of the next attempt.
                with self._sending:
                    self._context = None
            if len(text) > output_bytes or len(text.encode()) > output_bytes:
                message = f"the result is larger than {output_bytes} bytes"
                self._send(FrameKind.ERROR, dump_failure(of_code(ErrorCode.TOO_LARGE, message)))
            else:
                self._send(FrameKind.ANSWER, text)
        except BaseException as error:
            self._send_error(kind, error)

    def _send_error(self, kind: JobKind, error: BaseException) -> None:
        if not isinstance(error, MemoryError):
            with contextlib.suppress(MemoryError):
                failure = summarize(error, kind, SYSTEM_CLOCK.wall())
                failure = replace(failure, traceback=format_traceback(error))
                self._send(FrameKind.ERROR, dump_failure(failure))
                return
        # The traceback keeps alive what has filled the memory.
        error.__traceback__ = None
        with self._sending:
            self._connection.sendall(_NO_MEMORY)

    def _call(self, kind: JobKind, claim: Claim, context: JobContext) -> str:
        handler, arguments = kind.handler, None
        if handler.takes_arguments:
            arguments = decode_arguments(kind, claim.arguments)
        value = None
        if kind.existing is not None and kind.asks_existing(claim):
            value = self._ask_existing(kind.existing, context, arguments)
        if value is None:
            value = handler.call(context, arguments)
            if inspect.isawaitable(value):
                value = self._finish(value)
        return kind.encode_result(value)

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
            if kind is FrameKind.REQUEST:
                self._send(FrameKind.TAKEN, None)
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


def load(address: dict[str, Any]) -> Callable[[socket.socket, ChildLimits], None]:
    """Import the kind that `address` names, and return what runs its attempts."""
    kind, parent = load_kind(Address(**address)), os.getppid()

    def serve(connection: socket.socket, limits: ChildLimits) -> None:
        Attempts(connection, lambda: _end(parent)).serve(kind, limits)

    return serve


def _end(parent: int) -> None:
    """End this process, whose socket to its parent is closed."""
    if os.getppid() == parent:
        # The parent ends what this process has started. It must not take it for killed.
        os._exit(71)
    os.killpg(0, signal.SIGKILL)
