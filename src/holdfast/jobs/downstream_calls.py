"""Ask a downstream's shared breaker before a call, and report the call, outside of jobs.

Jobs are admitted by their claim and reported by their worker's tick. Other code asks here: a task
of Celery, or a job for calls to a second downstream. The record in the store is the same, so a
breaker that jobs have opened refuses tasks too.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TypeVar

from holdfast.clock import SYSTEM_CLOCK, Clock
from holdfast.errors import CircuitOpenError, ErrorCode, HoldfastError
from holdfast.jobs.downstreams.claim_permits import extend_call, grant_call
from holdfast.jobs.downstreams.record import (
    CallReport,
    DownstreamRecord,
    DownstreamSettings,
    Verdict,
    judge,
)
from holdfast.jobs.store_port import Store
from holdfast.resilience.breaker.transitions import CircuitState, Permit
from holdfast.resilience.categorize import diagnose
from holdfast.resilience.policy import BreakerPolicy
from holdfast.trace_port import Tracing

T = TypeVar("T")

_log = logging.getLogger("holdfast.downstreams")

WRITE_TRIES = 20
"""How often a write is tried while workers write the same record."""


class DownstreamBusy(HoldfastError):
    """Every try to write the record of `name` lost against a worker's write."""

    code = ErrorCode.IO_ERROR

    def __init__(self, name: str) -> None:
        super().__init__(f"downstream {name!r} is being written by workers; try again")
        self.name = name


@dataclass(frozen=True, slots=True)
class CallAdmission:
    """Whether a call may be made.

    Attributes:
        permit: for the report; None: the breaker refuses the call.
        wait: seconds after which a refused call may be tried again; 0 if that is not known.
    """

    permit: Permit | None
    wait: float = 0.0


class DownstreamCalls:
    """Admit and report calls to downstreams; `engine.calls`.

    Rates and concurrency limits are those of jobs and are not applied here.
    """

    def __init__(self, store: Store, clock: Clock = SYSTEM_CLOCK) -> None:
        self._store = store
        self._clock = clock
        self.tracing: Tracing | None = None

    async def run(
        self, name: str, operation: Callable[[], Awaitable[T]], *, lease_seconds: float = 150.0
    ) -> T:
        """Return what `operation` returns, one call to the downstream `name`; its outcome counts.

        Args:
            lease_seconds: longer than `operation` may take: for so long it keeps its place where it
                is a trial of a half-open breaker. The place of a trial whose process has died is
                free after them.

        Raises:
            CircuitOpenError: the breaker refuses the call; `retry_at` says when to come again.
            DownstreamBusy: every try to write the record lost against another write.
            Exception: what `operation` raises.
        """
        admission = await self.admit(name, lease_seconds)
        if admission.permit is None:
            raise CircuitOpenError(name, self._clock.wall() + admission.wait)
        verdict, code = Verdict.NEITHER, None
        try:
            with nullcontext() if self.tracing is None else self.tracing.calling(name):
                value = await operation()
            verdict = Verdict.SUCCESS
        except Exception as error:
            seen = diagnose(error, wall_now=self._clock.wall())
            verdict, code = Verdict.FAILURE if seen.counts else Verdict.NEITHER, seen.code
            raise
        finally:
            # Also where the call was cancelled: a trial call's permit is returned.
            await self._counted(name, admission.permit, verdict, code)
        return value

    async def declare(self, name: str, breaker: BreakerPolicy) -> None:
        """Create the downstream `name`, or give it this breaker; other settings are kept.

        Its record is never deleted, also where a job's downstream made it with a key.
        """
        record = await self._store.downstream(name)
        present = DownstreamSettings(name) if record is None else record.settings
        await self._store.declare_downstreams([replace(present, breaker=breaker, parent=None)])

    async def admit(self, name: str, lease_seconds: float = 0.0) -> CallAdmission:
        """Ask leave for one call; one to an unknown downstream is admitted.

        Args:
            lease_seconds: that a trial of a half-open breaker keeps its place at least. A call
                that lasts longer is extended, see `extend`.

        Raises:
            DownstreamBusy: every try to write the record lost against another write.
        """
        for _ in range(WRITE_TRIES):
            record = await self._store.downstream(name)
            if record is None:
                return CallAdmission(Permit(0))
            if record.circuit.state is CircuitState.CLOSED:
                if not record.use_is_noted(self._clock.wall()):
                    await self._store.note_downstream_use(name)
                return CallAdmission(Permit(record.circuit.generation))
            now = await self._store.ping()
            granted = grant_call(record, now, lease_seconds)
            if not granted.permits:
                return CallAdmission(None, _wait(record, now))
            if await self._store.write_downstream(granted.record) is not None:
                return CallAdmission(granted.permits[0][1])
        raise DownstreamBusy(name)

    async def extend(self, name: str, permit: Permit, lease_seconds: float) -> None:
        """Let a trial that still runs keep its place for `lease_seconds` from now.

        Raises:
            DownstreamBusy: every try to write the record lost against another write.
        """
        for _ in range(WRITE_TRIES):
            record = await self._store.downstream(name)
            if record is None or permit.trial is None:
                return
            extended = extend_call(record, permit, await self._store.ping(), lease_seconds)
            if extended is record or await self._store.write_downstream(extended) is not None:
                return
        raise DownstreamBusy(name)

    async def count(self, name: str, breaker: BreakerPolicy, code: str | None = None) -> None:
        """Count a call that was made without asking: a success, or a failure with `code`.

        A failure creates the downstream with this breaker where there is none of that name. While
        the breaker refuses calls nothing is counted.

        Raises:
            DownstreamBusy: every try to write the record lost against another write.
        """
        if await self._store.downstream(name) is None:
            if code is None:
                return
            await self.declare(name, breaker)
        permit = (await self.admit(name)).permit
        if permit is not None:
            verdict = Verdict.SUCCESS if code is None else Verdict.FAILURE
            await self.report(name, permit, verdict, code)

    async def report(
        self, name: str, permit: Permit, verdict: Verdict, code: str | None = None
    ) -> None:
        """Count a call; `code` is the error's code if it failed.

        Raises:
            DownstreamBusy: every try to write the record lost against another write.
        """
        report = CallReport(name, permit, verdict, code)
        for _ in range(WRITE_TRIES):
            record = await self._store.downstream(name)
            if record is None:
                return
            judged = judge(record, [report], await self._store.ping())
            if judged is record:
                return
            if await self._store.write_downstream(judged) is not None:
                if judged.circuit.state is not record.circuit.state:
                    _log.warning("downstream %s: the breaker is %s", name, judged.circuit.state)
                return
        raise DownstreamBusy(name)

    async def _counted(self, name: str, permit: Permit, verdict: Verdict, code: str | None) -> None:
        try:
            await self.report(name, permit, verdict, code)
        except HoldfastError as error:
            # The call's own outcome must not suffer from it.
            _log.warning("a call to %s was not counted: %s", name, error)


def _wait(record: DownstreamRecord, now: float) -> float:
    until = record.circuit.open_until
    return 0.0 if until is None else max(0.0, until - now)
