"""List downstreams; reset, hold and release their breakers by hand."""

import logging
from collections.abc import Mapping

from holdfast.errors import ErrorCode, HoldfastError
from holdfast.jobs.client.downstream_details import DownstreamDetails, details_of
from holdfast.jobs.declare.validation import shown
from holdfast.jobs.downstream_calls import WRITE_TRIES, DownstreamBusy
from holdfast.jobs.downstreams.record import DownstreamRecord, with_circuit
from holdfast.jobs.store_port import Store
from holdfast.resilience.breaker import transitions
from holdfast.resilience.breaker.transitions import Cause, CircuitState
from holdfast.resilience.policy import BreakerPolicy

_log = logging.getLogger("holdfast.downstreams")


class UnknownDownstream(HoldfastError, LookupError):
    """There is no downstream `name`: no app declared it and no job called it."""

    code = ErrorCode.VALIDATION_ERROR

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no downstream {name!r}")
        self.name = name


class DownstreamControl:
    """List downstreams; reset, hold and release them.

    A method that takes a name raises `UnknownDownstream` if there is none of that name.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def list(self) -> tuple[DownstreamRecord, ...]:
        """Return the records of all downstreams, by name."""
        return await self._store.downstreams()

    async def details(self) -> tuple[DownstreamDetails, ...]:
        """Return all downstreams with the jobs that wait for them, by name."""
        now = await self._store.ping()
        stats, sample = await self._store.stats(), await self._store.finished_jobs()
        return details_of(await self._store.downstreams(), stats, sample, now)

    async def troubled(self) -> tuple[DownstreamRecord, ...]:
        """Return the records of those whose breaker is open, held or half open, by name."""
        return await self._store.troubled_downstreams()

    async def get(self, name: str) -> DownstreamRecord:
        """Return the record of a downstream."""
        if not isinstance(name, str):
            raise TypeError(f"a downstream is named by a string, got {shown(name)}")
        record = await self._store.downstream(name)
        if record is None:
            raise UnknownDownstream(name)
        return record

    async def state(self, name: str) -> CircuitState:
        """Return the present state of its breaker, by the store's clock."""
        record = await self.get(name)
        return record.state_at(await self._store.ping())

    async def states(self) -> Mapping[str, CircuitState]:
        """Return the states of all breakers, by name."""
        now = await self._store.ping()
        return {record.name: record.state_at(now) for record in await self.list()}

    async def reset(self, name: str) -> DownstreamRecord:
        """Close its breaker and clear its failures; held jobs start gradually."""
        return await self._move(name, Cause.RESET)

    async def hold(self, name: str) -> DownstreamRecord:
        """Hold its jobs, whatever its mode, until it is released or reset."""
        return await self._move(name, Cause.HOLD)

    async def release(self, name: str) -> DownstreamRecord:
        """Start trial calls now: end a hold, or the wait of an open breaker.

        A downstream without a breaker policy is closed at once. One that is not open is left
        unchanged.
        """
        return await self._move(name, Cause.RELEASE)

    async def _move(self, name: str, cause: Cause) -> DownstreamRecord:
        for _ in range(WRITE_TRIES):
            record = await self.get(name)
            moved = _moved(record, cause, await self._store.ping())
            if moved is record:
                return record
            written = await self._store.write_downstream(moved)
            if written is not None:
                state = written.circuit.state
                _log.info("downstream %s: the breaker is now %s (%s)", name, state, cause)
                return written
        raise DownstreamBusy(name)


def _moved(record: DownstreamRecord, cause: Cause, now: float) -> DownstreamRecord:
    circuit, policy = record.circuit, record.settings.breaker
    if cause is Cause.HOLD and circuit.held:
        return record
    if cause is Cause.RELEASE:
        if record.state_at(now) is not CircuitState.OPEN:
            return record
        if policy is None:
            cause = Cause.RESET
    moved = transitions.move(circuit, cause, policy or BreakerPolicy(), now)
    return with_circuit(record, moved, now)
