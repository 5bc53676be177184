"""List, pause and resume queues and kinds of jobs, for the whole fleet."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.jobs.control_port import PauseScope
from holdfast.jobs.declare.job_function import JobFunction
from holdfast.jobs.declare.kinds import JobKind
from holdfast.jobs.declare.registry import Registry
from holdfast.jobs.declare.validation import shown
from holdfast.jobs.exceptions import UnknownKind, UnknownQueue
from holdfast.jobs.store_port import Store
from holdfast.jobs.views import LaneCounts


@dataclass(frozen=True, slots=True)
class PauseState:
    """A queue or a kind: whether it is paused, and how many of its jobs are unfinished.

    Args:
        name: its name.
        paused_at: since when it is paused, in epoch seconds; None if it is not.
        scheduled: queued jobs whose time has not come.
        ready: queued jobs that are due; while it is paused they are held.
        processing: running jobs.
    """

    name: str
    paused_at: float | None
    scheduled: int
    ready: int
    processing: int

    @property
    def paused(self) -> bool:
        """Whether it is paused."""
        return self.paused_at is not None


class QueueControl:
    """List, pause and resume queues.

    While a queue is paused no worker claims a job of it; running attempts finish, and jobs are
    enqueued as before. It stays paused across restarts, until it is resumed. A method that takes a
    name raises `UnknownQueue` if no declared kind and no stored job uses that queue.
    """

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry

    async def list(self) -> tuple[PauseState, ...]:
        """Return all queues, by name."""
        declared = [kind.queue for kind in self._registry.kinds.values()]
        return await _states(self._store, PauseScope.QUEUE, declared)

    async def pause(self, name: str) -> PauseState:
        """Claim no more jobs of the queue `name`. One that is paused is left unchanged."""
        await self._find(name)
        await self._store.pause(PauseScope.QUEUE, [name])
        return await self._find(name)

    async def resume(self, name: str) -> PauseState:
        """Claim jobs of the queue `name` again. One that is not paused is left unchanged."""
        await self._find(name)
        await self._store.resume(PauseScope.QUEUE, [name])
        return await self._find(name)

    async def _find(self, name: str) -> PauseState:
        if not isinstance(name, str):
            raise TypeError(f"a queue is named by a string, got {shown(name)}")
        states = {state.name: state for state in await self.list()}
        if name not in states:
            raise UnknownQueue(name, states)
        return states[name]


class KindControl(Mapping[str, JobKind]):
    """The declared kinds, by name; and list, pause and resume kinds.

    A kind is paused as a queue is, see `QueueControl`. `pause` and `resume` take a name or a
    declared function, and raise `UnknownKind` if no app declares it and no job of it is stored. The
    aliases of a declared kind are paused and resumed with it.
    """

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry

    def __getitem__(self, name: str) -> JobKind:
        return self._registry.kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._registry.kinds)

    def __len__(self) -> int:
        return len(self._registry.kinds)

    async def list(self) -> tuple[PauseState, ...]:
        """Return all kinds that are declared or have jobs, by name."""
        return await _states(self._store, PauseScope.KIND, self)

    async def pause(self, kind: str | JobFunction[Any, Any]) -> PauseState:
        """Claim no more jobs of `kind`. One that is paused is left unchanged."""
        name = (await self._find(kind)).name
        await self._store.pause(PauseScope.KIND, self._stored_names(name))
        return await self._find(name)

    async def resume(self, kind: str | JobFunction[Any, Any]) -> PauseState:
        """Claim jobs of `kind` again. One that is not paused is left unchanged."""
        name = (await self._find(kind)).name
        await self._store.resume(PauseScope.KIND, self._stored_names(name))
        return await self._find(name)

    def _stored_names(self, name: str) -> tuple[str, ...]:
        """Return `name` and its aliases, under which jobs of it may be stored."""
        return self[name].names if name in self else (name,)

    async def _find(self, kind: str | JobFunction[Any, Any]) -> PauseState:
        name = kind.kind.name if isinstance(kind, JobFunction) else kind
        if not isinstance(name, str):
            raise TypeError(f"a kind is a declared job or its name, got {shown(name)}")
        states = {state.name: state for state in await self.list()}
        if name not in states:
            raise UnknownKind(name, states)
        return states[name]


async def _states(
    store: Store, scope: PauseScope, declared: Iterable[str]
) -> tuple[PauseState, ...]:
    """Return what is declared, paused or has lanes, by name."""
    paused = {each.name: each.paused_at for each in await store.pauses() if each.scope is scope}
    lanes: dict[str, list[LaneCounts]] = {name: [] for name in (*declared, *paused)}
    for lane in (await store.stats()).lanes:
        name = lane.queue if scope is PauseScope.QUEUE else lane.kind
        lanes.setdefault(name, []).append(lane)
    return tuple(
        PauseState(
            name,
            paused.get(name),
            sum(lane.scheduled for lane in lanes[name]),
            sum(lane.ready for lane in lanes[name]),
            sum(lane.processing for lane in lanes[name]),
        )
        for name in sorted(lanes)
    )
