"""Ask open downstreams whether they are back, so that nobody waits longer than needed.

A probe that succeeds moves an open circuit to half open before its time: trial calls are let
through, as they would be once `open_for` is over. It never closes a circuit: only trials do. One
that a person holds is left alone.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from holdfast.clock import Clock
from holdfast.events import Listener, notify
from holdfast.jobs.declare.downstream import Downstream
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.downstreams.record import DownstreamRecord, settle
from holdfast.jobs.error_text import one_line
from holdfast.jobs.job_events import CircuitMoved, ProbeRan
from holdfast.jobs.store_port import Downstreams
from holdfast.resilience.breaker.transitions import Cause, CircuitState, move

_log = logging.getLogger("holdfast.maintenance")

_IDLE_INTERVAL = 3600.0


class ProbedStore(Downstreams, Protocol):
    """What probing needs of a store."""

    async def ping(self) -> float:
        """Answer with the store's clock, in epoch seconds."""
        ...


class Probes:
    """Probe each open downstream that declares a probe, every `probe_every` seconds.

    Args:
        interval: seconds between two looks at the records; a probe never runs more often.
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
        """Probe what is open and due; return how many circuits were let go on."""
        if not self._probed:
            return 0
        records = await self._store.downstreams()
        now = await self._store.ping()
        due = [
            (record, downstream)
            for record in records
            if record.state_at(now) is CircuitState.OPEN and not record.circuit.held
            for downstream in self._probed
            if downstream.covers(record.name) and self._is_due(record.name, downstream)
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
        error = await self._ask(downstream, record.name)
        notify(self._listeners, ProbeRan(record.name, error is None, error))
        if error is not None:
            _log.debug("downstream %s is not well yet: %s", record.name, error)
            return False
        return await self._let_on(record)

    async def _ask(self, downstream: Downstream, name: str) -> str | None:
        """Return None where the downstream is well, else why it is not."""
        probe, key = downstream.probe, downstream.key_of(name)
        assert probe is not None
        arguments = () if key is None else (key,)
        try:
            answer = await asyncio.wait_for(_called(probe, arguments), downstream.probe_every)
        except Exception as error:
            return one_line(error)
        return "the probe answered False" if answer is False else None

    async def _let_on(self, record: DownstreamRecord) -> bool:
        policy = record.settings.breaker
        assert policy is not None
        now = await self._store.ping()
        circuit = move(record.circuit, Cause.COOLED, policy, now)
        written = await self._store.write_downstream(settle(record, circuit, now))
        if written is None:
            # Somebody else moved it since it was read; the next round looks again.
            return False
        _log.info("downstream %s is well again by its probe; trial calls follow", record.name)
        notify(self._listeners, CircuitMoved(record.name, str(circuit.state), str(Cause.COOLED)))
        return True


async def _called(probe: Callable[..., object], arguments: tuple[str, ...]) -> object:
    if inspect.iscoroutinefunction(probe):
        return await probe(*arguments)
    answer = await asyncio.to_thread(probe, *arguments)
    return await answer if inspect.isawaitable(answer) else answer
