"""The limits of downstreams and kinds in one claim: what they are judged by, read under locks.

The pure functions of `holdfast.jobs.downstreams` decide; what they decide on is locked first, in
the order that the package's docstring gives, so that limits hold in the whole fleet. Each step is
one statement for all downstreams.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from holdfast.jobs.downstreams.claim_permits import (
    RateSpent,
    grant,
    rate_check_at,
    rate_widths,
)
from holdfast.jobs.downstreams.record import Admission, DownstreamRecord, judge
from holdfast.jobs.owner_places import OwnerPlaces
from holdfast.resilience.breaker.transitions import CircuitState, Permit
from holdfast.store.postgres import downstream_records
from holdfast.store.postgres.connection import Connection, rows
from holdfast.store.postgres.downstream_records import Reports

Grants = Sequence[tuple[Admission, Permit]]


class Limits:
    """Records of downstreams and counts of running jobs, for one transaction.

    Attributes:
        moved: records whose breaker changed its state, after `save`.
        wake_at: when a limit that refused a job may allow it, in epoch seconds.
    """

    def __init__(self, connection: Connection, now: float) -> None:
        self.moved: list[DownstreamRecord] = []
        self.wake_at: float | None = None
        self._connection = connection
        self._now = now
        self._before: dict[str, DownstreamRecord] = {}
        self._records: dict[str, DownstreamRecord] = {}
        self._running: Counter[str] = Counter()
        self._counted: set[str] = set()
        self._spent: defaultdict[str, list[RateSpent]] = defaultdict(list)
        self._new_spent: Counter[tuple[str, float, int]] = Counter()
        self._trials: defaultdict[str, dict[int, float]] = defaultdict(dict)
        self._places: dict[str, OwnerPlaces] = {}
        self._kinds: dict[str, int] = {}
        self._kinds_locked = False
        self._aliases: Mapping[str, str] = {}

    def record(self, name: str) -> DownstreamRecord | None:
        """Return the record of a downstream that is locked."""
        return self._records.get(name)

    async def judge(self, reports: Reports, also: Iterable[str]) -> None:
        """Lock the downstreams of `reports` and of `also`, and judge the reports."""
        names = {*reports, *also}
        if names:
            self._before = await downstream_records.lock(self._connection, names)
            self._records = {
                name: judge(record, reports.get(name, ()), self._now)
                for name, record in self._before.items()
            }

    async def lock_more(self, names: Iterable[str]) -> None:
        """Lock further downstreams; those that another transaction has locked are left out.

        To wait for them as well could be a deadlock: they are not in the order of names.
        """
        missing = {name for name in names if name not in self._records}
        if missing:
            found = await downstream_records.lock(self._connection, missing, skip=True)
            self._before |= found
            self._records |= found

    async def count(
        self, names: Collection[str], kinds: Mapping[str, int], aliases: Mapping[str, str]
    ) -> None:
        """Read what the limits of these downstreams and kinds (with their limits) are judged by.

        Each is read once: what this transaction starts from then on is counted in memory. Kinds
        among `aliases` are counted as the kinds that these name.
        """
        if kinds and not self._kinds_locked:
            self._kinds_locked = True
            await rows(self._connection, "claim_lock_kinds", kinds=sorted(kinds))
            running = await rows(self._connection, "claim_running_kinds", kinds=list(kinds))
            self._aliases = aliases
            self._kinds = {self.limited_name(kind): most for kind, most in kinds.items()}
            for kind, n in running:
                self.use_kind(kind, n)
            # A limit that was lowered may be below the number of running jobs.
            self._kinds = {kind: max(0, n) for kind, n in self._kinds.items()}
        names = set(names) - self._counted
        self._counted |= names
        if not names:
            return
        found = await rows(self._connection, "claim_running", downstreams=list(names))
        self._running.update(dict(map(tuple, found)))
        rated = [name for name in names if self._records[name].settings.rate is not None]
        if rated:
            for name, *spent in await rows(self._connection, "claim_rate_spent", downstreams=rated):
                self._spent[name].append(RateSpent(*spent))
        await self._read_trials(names)
        await self._read_owners(names)

    async def _read_trials(self, names: Iterable[str]) -> None:
        circuits = {name: self._records[name].circuit for name in names}
        generations = {
            name: circuit.generation
            for name, circuit in circuits.items()
            if circuit.state is not CircuitState.CLOSED
        }
        if generations:
            found = await rows(
                self._connection,
                "claim_trial_leases",
                downstreams=list(generations),
                generations=list(generations.values()),
            )
            for name, trial, expires_at in found:
                self._trials[name][trial] = expires_at

    async def _read_owners(self, names: Iterable[str]) -> None:
        shared = {name: self._records[name].settings for name in names}
        shared = {name: settings for name, settings in shared.items() if settings.spare}
        if not shared:
            return
        running: defaultdict[str, list[str]] = defaultdict(list)
        found = await rows(self._connection, "claim_running_owners", downstreams=list(shared))
        for name, owner in found:
            running[name].append(owner)
        for name, settings in shared.items():
            self._places[name] = OwnerPlaces.of(settings, running[name])

    def places(self, name: str) -> OwnerPlaces | None:
        """Return who holds the places of a downstream; None where its owners leave none spare."""
        return self._places.get(name)

    def remaining(self, name: str, wanted: int) -> tuple[int, int | None]:
        """Return how many of `wanted` jobs may start, and the generation of their permits."""
        if name not in self._records:
            return wanted, None
        _, permits = self._grant(name, wanted)
        return len(permits), permits[0][1].generation if permits else None

    def kind_remaining(self, kind: str) -> int | None:
        """Return how many more jobs of `kind` may start; None is any number."""
        return self._kinds.get(self.limited_name(kind))

    def limited_name(self, kind: str) -> str:
        """Return the name under which the running jobs of `kind` are counted."""
        return self._aliases.get(kind, kind)

    def use_kind(self, kind: str, n: int) -> None:
        """Count `n` jobs of `kind` that were started."""
        name = self.limited_name(kind)
        if name in self._kinds:
            self._kinds[name] -= n

    def take(self, name: str, n: int) -> Grants:
        """Grant permits for `n` jobs of a downstream that were started."""
        self._records[name], permits = self._grant(name, n)
        self._running[name] += n
        for _, permit in permits:
            if permit.trial is not None:  # it runs from now on
                self._trials[name][permit.trial] = self._now
        calls = sum(admission is not Admission.REFUSED for admission, _ in permits)
        for width in rate_widths(self._records[name].settings.rate) if calls else ():
            bucket = int(self._now // width)
            self._spent[name].append(RateSpent(width, bucket, calls))
            self._new_spent[name, width, bucket] += calls
        return permits

    def _grant(self, name: str, wanted: int) -> tuple[DownstreamRecord, Grants]:
        record = self._records[name]
        granted = grant(
            record,
            wanted,
            self._now,
            running=self._running[name],
            spent=self._spent[name],
            trial_leases=self._trials[name],
        )
        if len(granted.permits) < wanted and record.settings.rate is not None:
            at = rate_check_at(record.settings.rate, self._spent[name], self._now)
            self.wake_at = at if self.wake_at is None else min(at, self.wake_at)
        return granted.record, granted.permits

    async def save(self) -> None:
        """Write the records that changed and the starts that rate limits count."""
        changed = [
            record for name, record in self._records.items() if record is not self._before[name]
        ]
        if changed:
            stored = await downstream_records.save_all(self._connection, changed, self._now)
            if len(stored) < len(changed):
                raise AssertionError("a downstream changed under our own lock")
            self.moved = [
                record
                for record in stored
                if record.circuit.state is not self._before[record.name].circuit.state
            ]
        if self._new_spent:
            await self._save_spent()

    async def _save_spent(self) -> None:
        spent = sorted(self._new_spent.items())
        names, widths, buckets = zip(*[slot for slot, _ in spent], strict=True)
        slots = {"downstreams": names, "widths": widths}
        calls = [n for _, n in spent]
        await rows(self._connection, "claim_spend", **slots, buckets=buckets, spent=calls)
        oldest = [
            int((self._now - rate_widths(self._records[name].settings.rate)[width]) // width)
            for name, width in zip(names, widths, strict=True)
        ]
        await rows(self._connection, "claim_forget_spent", **slots, buckets=oldest)
