"""Run attempts of isolated kinds in child processes: one pool for each kind."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from holdfast.children import (
    ChildDied,
    ChildFailed,
    ChildPool,
    ChildProcess,
    ChildSpec,
    Death,
    FrameKind,
)
from holdfast.clock import Clock
from holdfast.errors import ErrorCode
from holdfast.jobs.declare.context import CancelReason
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.error_text import clean
from holdfast.jobs.worker.failure import Failure, of_code
from holdfast.jobs.worker.isolation.address import address_of
from holdfast.jobs.worker.isolation.child_options import ChildOptions
from holdfast.jobs.worker.isolation.messages import dump_claim, load_failure, load_progress
from holdfast.jobs.worker.run import Run

_TARGET = "holdfast.jobs.worker.isolation.attempts:load"
_KILLED_AT_ONCE = (CancelReason.TIMEOUT, CancelReason.LEASE_LOST)


class KindPools:
    """Run attempts of isolated kinds, each in a child that served only its kind before.

    A child is used again unless its attempt was cut, died, or ran out of memory, and at most
    `ChildLimits.requests` times. There are never more busy ones than attempts at a time.

    Raises:
        ValueError: one of the kinds cannot be found by a child.
    """

    def __init__(self, kinds: Mapping[str, JobKind], options: ChildOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._pools = {
            name: ChildPool(self._spec(kind), clock, idle_seconds=options.idle_seconds)
            for name, kind in kinds.items()
            if kind.isolation is not None
        }

    def warm(self) -> None:
        """Begin to start one child for each kind, so that the first attempt need not wait."""
        for pool in self._pools.values():
            pool.warm()

    async def execute(self, run: Run) -> str | Failure:
        """Run an attempt in a child; return its result as JSON text, or what went wrong."""
        stopper = _Stopper(run)
        run.call, run.waits = stopper, True

        def begin(child: ChildProcess) -> None:
            stopper.child, run.waits = child, False
            if run.stop_reason is None:
                run.count_from(self._clock.monotonic())

        def read(child: ChildProcess, kind: FrameKind, body: Any) -> str | Failure:
            answer: str | Failure = body if kind is FrameKind.ANSWER else load_failure(body)
            if run.stop_reason is not None or _is_out_of_memory(answer):
                child.retire()
            return answer

        try:
            return await self._pools[run.kind.name].call(
                dump_claim(run.claim),
                read,
                begin=begin,
                progress=lambda body: run.context.progress(*load_progress(body)),
            )
        except ChildFailed as error:
            return of_code(ErrorCode.UNKNOWN, clean(str(error)))
        except ChildDied as error:
            return self._failure_of(error, run.kind.name)
        finally:
            run.call, run.waits = None, False

    async def close(self) -> None:
        """End all children."""
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))

    def _spec(self, kind: JobKind) -> ChildSpec:
        options = self._options
        return ChildSpec(
            _TARGET,
            asdict(address_of(kind)),
            options.limits_of(kind.name),
            start_seconds=options.start_seconds,
        )

    def _failure_of(self, error: ChildDied, kind: str) -> Failure:
        death, detail = error.death, error.detail
        if death is Death.CPU_TIME:
            seconds = self._options.limits_of(kind).cpu_seconds or 0.0
            message = f"more than {seconds:g} s of processor time were used"
            return of_code(ErrorCode.TIMEOUT, message, final=True)
        if death is Death.KILLED:
            message = "the child process was killed, most likely for want of memory"
            return of_code(ErrorCode.MEMORY_ERROR, message)
        messages = {
            Death.BROKEN_FRAME: f"the child process answered with {detail}",
            Death.DETACHED: "the child process closed its pipe and was ended",
            Death.EXIT: f"the child process ended itself with {detail}",
        }
        message = messages.get(death, f"the child process died of {detail}")
        return of_code(ErrorCode.UNKNOWN, clean(message))


def _is_out_of_memory(answer: str | Failure) -> bool:
    return isinstance(answer, Failure) and answer.diagnosis.code == ErrorCode.MEMORY_ERROR


class _Stopper:
    """Stop an attempt that waits for a child, or has one."""

    __slots__ = ("_run", "child")

    def __init__(self, run: Run) -> None:
        self._run = run
        self.child: ChildProcess | None = None

    def request_stop(self, reason: CancelReason) -> None:
        if self.child is None:
            self._cancel_task()
        elif reason in _KILLED_AT_ONCE:
            self.child.kill()
        else:
            self.child.cancel(reason)

    def kill(self) -> None:
        if self.child is None:
            self._cancel_task()
        else:
            self.child.kill()

    def _cancel_task(self) -> None:
        # It still waits for its child to start.
        if self._run.task is not None:
            with contextlib.suppress(RuntimeError):
                self._run.task.cancel()
