"""List dead letters, requeue them in bulk, or discard them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.clock import Clock
from holdfast.errors import HoldfastError
from holdfast.jobs.client.queries import MOST_LISTED, id_of, several
from holdfast.jobs.declare.job_request import JobId
from holdfast.jobs.declare.registry import Registry
from holdfast.jobs.downstreams.record import HoldMode
from holdfast.jobs.store_port import Change, Store
from holdfast.jobs.views import (
    EVERY_JOB,
    DeadLetter,
    DeadLetterGroup,
    DeadLetterSearch,
    ErrorGroup,
    JobFilter,
    error_groups,
)
from holdfast.resilience import checks
from holdfast.resilience.breaker.transitions import CircuitState

_PAGE = 500
_MOST_GROUPS = 1000
"""Groups that are read to count dead letters; with more of them each dead letter is read."""
_BATCH_INTERVAL = 0.1
"""Seconds between two batches of a requeue with a rate."""
_POLL_INTERVAL = 1.0
"""Seconds between two checks of an open downstream in `fail_fast` mode."""


@dataclass(frozen=True, slots=True)
class Requeued:
    """The result of a requeue so far, or of a dry run.

    `skipped` counts jobs that were not requeued, by reason: the error code of a kind's
    `before_retry`, `twin` if a twin exists, `gone` if the job is no longer a dead letter.
    """

    matched: int
    requeued: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class _Moves:
    """What is done with a batch: `choose` says of which jobs, and `act` does it.

    Both count what they leave out, by reason; `act` returns how many jobs it has changed. None is
    begun after `stop` is set.
    """

    choose: Callable[[Sequence[DeadLetter], Counter[str]], Awaitable[Sequence[DeadLetter]]]
    act: Callable[[Sequence[DeadLetter], Counter[str]], Awaitable[int]]
    stop: asyncio.Event


class DeadLetters:
    """List, requeue and discard dead letters."""

    def __init__(self, store: Store, registry: Registry, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._clock = clock

    async def list(
        self, where: JobFilter = EVERY_JOB, *, cursor: str | None = None, limit: int = 50
    ) -> tuple[tuple[DeadLetter, ...], str | None]:
        """Return dead letters, newest failure first, and the cursor of the next page.

        Raises:
            ValueError: `limit` is not from 0 to 100 000, or `cursor` is not valid.
        """
        checks.whole("limit", limit, at_least=0, at_most=MOST_LISTED)
        return await self._store.dead_letters(where, cursor=cursor, limit=limit)

    async def search(
        self, where: JobFilter = EVERY_JOB, *, cursor: str | None = None, limit: int = 50
    ) -> DeadLetterSearch:
        """Return dead letters as `list` does, looking at the newest 2000 of them only.

        All of one group are looked at. The answer says where the search has stopped, and its cursor
        goes on from there.

        Raises:
            ValueError: `limit` is not from 0 to 100 000, or `cursor` is not valid.
        """
        checks.whole("limit", limit, at_least=0, at_most=MOST_LISTED)
        return await self._store.search_dead_letters(where, cursor=cursor, limit=limit)

    async def groups(self) -> tuple[DeadLetterGroup, ...]:
        """Return them grouped by kind, code and normalised message, largest group first.

        At most 1000 groups come.
        """
        return await self._store.dead_letter_groups()

    async def errors(self) -> tuple[ErrorGroup, ...]:
        """Return them grouped by code and normalised message, largest group first."""
        return error_groups(await self.groups())

    async def count(self, where: JobFilter = EVERY_JOB) -> int:
        """Return how many match.

        Counters know it for kinds, codes and groups; any other filter reads all dead letters.
        """
        groups = await self._matching_groups(where)
        if groups is not None:
            return sum(group.count for group in groups)
        return sum([len(batch) async for batch in self._batches(where, _PAGE)])

    async def requeue(
        self,
        where: JobFilter = EVERY_JOB,
        *,
        dry_run: bool = False,
        rate: float | None = None,
        progress: Callable[[Requeued], object] | None = None,
        stop: asyncio.Event | None = None,
    ) -> Requeued:
        """Requeue every dead letter that matches.

        Jobs that fail again meanwhile are not requeued twice. The requeue waits while a downstream
        of the next batch is open in `fail_fast` mode.

        Args:
            where: which ones.
            dry_run: count them and call `before_retry`, but change nothing.
            rate: most jobs per second; None sets no limit.
            progress: called after each batch with the result so far.
            stop: set it to end this between two batches, or in a wait. The result is true to what
                was done; that of a cancelled task may lack a batch.

        Raises:
            ValueError: `rate` is not above 0.
        """

        stopping = stop or asyncio.Event()
        if dry_run and (known := await self._all_eligible(where)) is not None:
            if progress is not None:
                progress(known)
            return known

        async def choose(batch: Sequence[DeadLetter], skipped: Counter[str]) -> list[DeadLetter]:
            chosen = [letter for letter in batch if await self._eligible(letter, skipped)]
            if not dry_run:
                await self._wait_for_downstreams(chosen, stopping)
            return chosen

        moves = _Moves(choose, self._retry, stopping)
        return await self._run(where, moves, dry_run=dry_run, rate=rate, progress=progress)

    async def requeue_now(self, job: JobId) -> bool:
        """Requeue one dead letter without a wait for its downstream.

        Return False, and change nothing, if its kind's `before_retry` refuses, if a twin exists, or
        if it is no longer a dead letter.
        """
        job_id = id_of(job)
        if await self._refusal(job_id) is not None:
            return False
        return await self._store.retry([job_id]) == (Change.DONE,)

    async def discard_all(
        self,
        where: JobFilter = EVERY_JOB,
        *,
        dry_run: bool = False,
        rate: float | None = None,
        progress: Callable[[Requeued], object] | None = None,
        stop: asyncio.Event | None = None,
    ) -> Requeued:
        """Discard every dead letter that matches, as `requeue` requeues them.

        The answer's `requeued` is the number of those that were discarded.
        """

        async def choose(batch: Sequence[DeadLetter], _: Counter[str]) -> Sequence[DeadLetter]:
            return batch

        async def act(batch: Sequence[DeadLetter], skipped: Counter[str]) -> int:
            done = await self.discard(batch)
            skipped.update(+Counter({"gone": len(batch) - done}))
            return done

        moves = _Moves(choose, act, stop or asyncio.Event())
        return await self._run(where, moves, dry_run=dry_run, rate=rate, progress=progress)

    async def _run(
        self,
        where: JobFilter,
        moves: _Moves,
        *,
        dry_run: bool,
        rate: float | None,
        progress: Callable[[Requeued], object] | None,
    ) -> Requeued:
        """Handle all that match, in batches, at most `rate` per second."""
        checks.number("rate", rate, above=0, optional=True)
        size = _PAGE if rate is None else max(1, min(_PAGE, int(rate * _BATCH_INTERVAL)))
        matched, done, skipped = 0, 0, Counter[str]()
        next_at = self._clock.monotonic()
        async for batch in self._batches(where, size):
            if moves.stop.is_set():
                break
            matched += len(batch)
            chosen = await moves.choose(batch, skipped)
            # It may have waited for a downstream.
            if moves.stop.is_set():
                break
            # Read after every wait: time that was spent waiting is not made up for.
            begun = self._clock.monotonic()
            changed = len(chosen)
            if chosen and not dry_run:
                changed = await moves.act(chosen, skipped)
            done += changed
            if progress is not None:
                progress(Requeued(matched, done, dict(skipped), dry_run))
            if rate is not None and not dry_run:
                next_at = max(begun, next_at) + changed / rate
                await self._pause(next_at - self._clock.monotonic(), moves.stop)
        return Requeued(matched, done, dict(skipped), dry_run)

    async def discard(self, jobs: JobId | Iterable[JobId]) -> int:
        """Remove jobs from the dead letters; they stay failed. Return how many."""
        return await self._store.discard([id_of(job) for job in several(jobs)])

    async def _pause(self, seconds: float, stop: asyncio.Event) -> None:
        """Sleep, at most until `stop` is set."""
        if seconds <= 0:
            return
        waits = [
            asyncio.create_task(self._clock.sleep_async(seconds)),
            asyncio.create_task(stop.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _batches(self, where: JobFilter, size: int) -> AsyncIterator[Sequence[DeadLetter]]:
        cursor: str | None = None
        while True:
            page, cursor = await self._store.dead_letters(where, cursor=cursor, limit=_PAGE)
            for start in range(0, len(page), size):
                yield page[start : start + size]
            if cursor is None:
                return

    async def _matching_groups(self, where: JobFilter) -> Sequence[DeadLetterGroup] | None:
        """Return the groups of what matches; None where these do not say it."""
        by_group = JobFilter(
            kinds=where.kinds, error_code=where.error_code, error_group=where.error_group
        )
        if where != by_group:
            return None
        groups = await self._store.dead_letter_groups(limit=_MOST_GROUPS)
        if len(groups) == _MOST_GROUPS:
            return None
        return [
            group
            for group in groups
            if (not where.kinds or group.kind in where.kinds)
            and where.error_code in (None, group.code)
            and where.error_group in (None, group.message)
        ]

    async def _all_eligible(self, where: JobFilter) -> Requeued | None:
        """Return the dry run over what matches if no kind of it has a `before_retry`."""
        groups = await self._matching_groups(where)
        if groups is None or any(self._registry.has_retry_check(group.kind) for group in groups):
            return None
        total = sum(group.count for group in groups)
        return Requeued(total, total, {}, dry_run=True)

    async def _eligible(self, letter: DeadLetter, skipped: Counter[str]) -> bool:
        if not self._registry.has_retry_check(letter.job.kind):
            return True
        reason = await self._refusal(letter.job.id)
        if reason is not None:
            skipped[reason] += 1
        return reason is None

    async def _refusal(self, job_id: str) -> str | None:
        """Return why a job is not to be requeued; None if it is."""
        # Listed jobs have no arguments, and before_retry may need them.
        job = await self._store.get(job_id)
        if job is None or not job.is_dead_letter:
            return "gone"
        try:
            await self._registry.check_retry(job)
        except HoldfastError as error:
            return str(error.code)
        return None

    async def _retry(self, letters: Sequence[DeadLetter], skipped: Counter[str]) -> int:
        changes = Counter(await self._store.retry([letter.job.id for letter in letters]))
        done = changes.pop(Change.DONE, 0)
        twins = changes.pop(Change.TWIN, 0)
        skipped.update(+Counter({"twin": twins, "gone": changes.total()}))
        return done

    async def _wait_for_downstreams(
        self, letters: Sequence[DeadLetter], stop: asyncio.Event
    ) -> None:
        names = {letter.job.downstream for letter in letters} - {None}
        while names and not stop.is_set():
            now = await self._store.ping()
            records = [record for record in await self._store.downstreams() if record.name in names]
            if not any(
                record.settings.mode is HoldMode.FAIL_FAST
                and record.state_at(now) is CircuitState.OPEN
                for record in records
            ):
                return
            await self._pause(_POLL_INTERVAL, stop)
