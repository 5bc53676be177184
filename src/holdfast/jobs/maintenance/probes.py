"""Probe the health of open downstreams, so that trial calls start as soon as possible.

A successful probe moves an open circuit to half open before `open_for` has passed. It never closes
a circuit: only trial calls do. After failed trial calls the next probe waits, longer each time.
Downstreams held by a person are not probed.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from holdfast.clock import Clock
from holdfast.events import Listener, notify
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.downstreams.record import DownstreamRecord, probe_from, with_circuit
from holdfast.jobs.error_text import one_line
from holdfast.jobs.job_events import CircuitMoved, ProbeRan
from holdfast.jobs.store_port import DownstreamStore
from holdfast.resilience.breaker.transitions import Cause, CircuitState, move

_log = logging.getLogger("holdfast.maintenance")

_IDLE_INTERVAL = 3600.0
"""Seconds between two rounds where no downstream has a probe: there is nothing to do."""


class ProbedStore(DownstreamStore, Protocol):
    """The store methods that probes use."""

    async def ping(self) -> float:
        """Return the store's time in epoch seconds."""
        ...


class Probes:
    """Probe each open downstream that declares a probe, every `probe_every` seconds.

    Args:
        interval: seconds between two reads of the records; a probe never runs more often.
    """

    name = "probes"

    def __init__(
        self,
        store: ProbedStore,
        kinds: Iterable[JobKind],
        *,
        clock: Clock,
        interval: float,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self._store = store
        self._clock = clock
        self._listeners = listeners
        declared = (kind.downstream for kind in kinds if kind.downstream is not None)
        self._probed = tuple(
            {known.name: known for known in declared if known.probe is not None}.values()
        )
        self.interval = interval if self._probed else _IDLE_INTERVAL
        self._last: dict[str, float] = {}

    async def round(self) -> int:
        """Probe the open downstreams that are due; return how many moved to half open."""
        if not self._probed:
            return 0
        records = await self._store.downstreams()
        now = await self._store.ping()
        due = [
            (record, downstream)
            for record in records
            if record.state_at(now) is CircuitState.OPEN and not record.circuit.held
            for downstream in self._probed
            if downstream.covers(record.name)
            and probe_from(record, downstream.probe_every) <= now
            and self._is_due(record.name, downstream)
        ]
        moved = await asyncio.gather(*(self._probe(record, known) for record, known in due))
        return sum(moved)

    def _is_due(self, name: str, downstream: Downstream) -> bool:
        now, last = self._clock.monotonic(), self._last.get(name)
        if last is not None and now - last < downstream.probe_every:
            return False
        self._last[name] = now
        return True

    async def _probe(self, record: DownstreamRecord, downstream: Downstream) -> bool:
        error = await probe_failure(downstream, record.name)
        notify(self._listeners, ProbeRan(record.name, error is None, error))
        if error is not None:
            _log.debug("downstream %s failed its probe: %s", record.name, error)
            return False
        return await self._half_open(record)

    async def _half_open(self, record: DownstreamRecord) -> bool:
        policy = record.settings.breaker
        assert policy is not None
        now = await self._store.ping()
        circuit = move(record.circuit, Cause.COOLED, policy, now)
        written = await self._store.write_downstream(with_circuit(record, circuit, now))
        if written is None:
            # A worker or a person changed the record since it was read; the next round retries.
            return False
        _log.info("downstream %s passed its probe; trial calls follow", record.name)
        notify(self._listeners, CircuitMoved(record.name, str(circuit.state), str(Cause.COOLED)))
        return True


async def probe_failure(downstream: Downstream, name: str) -> str | None:
    """Call the probe of `downstream`, which must have one; return why it fails, or None.

    `name` is the name of its record, from which a probe with a key gets the key.
    """
    probe, key = downstream.probe, downstream.key_of(name)
    assert probe is not None
    arguments = () if key is None else (key,)
    try:
        answer = await asyncio.wait_for(_called(probe, arguments), downstream.probe_every)
    except Exception as error:
        return one_line(error)
    return "the probe returned False" if answer is False else None


async def _called(probe: Callable[..., object], arguments: tuple[str, ...]) -> object:
    if inspect.iscoroutinefunction(probe):
        return await probe(*arguments)
    answer = await asyncio.to_thread(probe, *arguments)
    return await answer if inspect.isawaitable(answer) else answer
