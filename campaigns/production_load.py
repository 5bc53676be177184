"""The clients of the campaign `production`: they enqueue jobs and follow their events."""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import asyncpg

from campaigns.checker import StoredJob
from campaigns.production_apps import Document, fatal, fetch, mail, send, shop, unreadable
from holdfast.bootstrap import Engine, open_store
from holdfast.jobs.client.requests import JobRequest
from holdfast.jobs.model import EventName
from holdfast.jobs.store_port import StoreUnavailable

_UNREACHABLE = (
    StoreUnavailable,
    OSError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.ReadOnlySQLTransactionError,
)
"""What a client may meet while the server is away. Everything else is a finding."""
_FOLLOWED = 500

Requests = Sequence[JobRequest[Any, Any]]


@dataclass(slots=True)
class Tally:
    """What all clients asked for, and what they were answered.

    `documents` are the numbers of the documents by job id, for jobs with a dedup key.
    """

    acknowledged: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    poison: set[str] = field(default_factory=set)
    documents: dict[str, int] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    unanswered_calls: int = 0
    rolled_back: int = 0
    fatal: int = 0

    def answered(self, ids: Sequence[str]) -> None:
        """Note that the jobs `ids` were acknowledged."""
        self.acknowledged.update(ids)
        self.unknown.difference_update(ids)

    def unanswered(self, requests: Requests) -> None:
        """Note that these jobs may exist or not."""
        self.unknown.update({request.id or "" for request in requests} - self.acknowledged)


def doubled(tally: Tally, stored: Mapping[str, StoredJob]) -> list[str]:
    """Return a finding for each document with several jobs that did not fail."""
    jobs: defaultdict[int, list[str]] = defaultdict(list)
    for job, document in tally.documents.items():
        if job in stored and stored[job].status != "failed":
            jobs[document].append(job)
    return [
        f"duplicate: document {document} has the jobs {found}"
        for document, found in jobs.items()
        if len(found) > 1
    ]


class Shelf:
    """The documents that clients fetch now; the clients' choices overlap.

    Args:
        hosts: how many hosts there are.
        slow: seconds that the slowest document takes.
    """

    def __init__(self, hosts: int, slow: float) -> None:
        self._hosts = hosts
        self._slow = slow
        self._first = 0

    def choose(self, size: int, rng: random.Random) -> list[int]:
        """Return the numbers of `size` documents in random order; half of them are new."""
        chosen = rng.sample(range(self._first, self._first + 2 * size), size)
        self._first += size // 2
        return chosen

    def document(self, number: int) -> Document:
        """Return the document `number`, the same for every client."""
        host = number * 7919 % self._hosts
        seconds = round(random.Random(number).uniform(0.0, self._slow), 3)
        return Document(f"h{host}.test", seconds, poison=number % 100 == 13, flaky=host % 50 == 7)


class EnqueueingClient:
    """Enqueues bulks with dedup keys, mails of many owners, and jobs in its own transactions.

    Args:
        name: the prefix of its jobs' ids.
        url: the store's address, that of a pooler included.
        pause: most seconds between two calls.
        fatal_every: a mail in so many kills its worker.
    """

    def __init__(
        self,
        name: str,
        url: str,
        tally: Tally,
        shelf: Shelf,
        rng: random.Random,
        *,
        pause: float,
        fatal_every: int,
    ) -> None:
        self._name = name
        self._url = url
        self._tally = tally
        self._shelf = shelf
        self._rng = rng
        self._pause = pause
        self._fatal_every = fatal_every
        self._numbers = count()
        self._mails = count(1)
        self.stopping = False

    async def run(self) -> None:
        """Enqueue until `stopping` is set."""
        while not self.stopping:
            try:
                await self._enqueue_many_times()
            except StoreUnavailable:  # it began during an outage
                await asyncio.sleep(0.2)

    async def _enqueue_many_times(self) -> None:
        async with Engine(self._url, apps=(shop, mail)) as engine:
            while not self.stopping:
                try:
                    await self._enqueue(engine)
                except Exception as error:
                    self._tally.findings.append(
                        f"client {self._name} got {type(error).__name__}: {error}"
                    )
                await asyncio.sleep(self._rng.uniform(0.0, self._pause))

    @asynccontextmanager
    async def forgotten_transaction(self) -> AsyncIterator[None]:
        """Enqueue in a transaction of our own, and commit it only when the block ends."""
        requests = self._letters(5)
        async with Engine(self._url, apps=(mail,)) as engine:
            connection = await asyncpg.connect(self._url)
            try:
                async with connection.transaction():
                    await engine.enqueue_many(requests, connection=connection)
                    yield
                self._tally.answered([request.id or "" for request in requests])
            finally:
                await connection.close(timeout=5)

    async def _enqueue(self, engine: Engine) -> None:
        chosen = self._rng.random()
        if chosen < 0.5:
            await self._bulk(engine, self._documents(self._rng.randint(5, 60)))
        elif chosen < 0.85:
            await self._bulk(engine, self._letters(self._rng.randint(1, 40)))
        else:
            await self._transaction(engine, self._letters(self._rng.randint(1, 5)))

    def _id(self) -> str:
        return f"{self._name}-{next(self._numbers)}"

    def _documents(self, size: int) -> Requests:
        requests: list[JobRequest[Any, Any]] = []
        for number in self._shelf.choose(size, self._rng):
            document, job = self._shelf.document(number), self._id()
            self._tally.documents[job] = number
            if document.poison:
                self._tally.poison.add(job)
            requests.append(JobRequest(fetch, document, dedup_key=f"doc-{number}", id=job))
        return requests

    def _letters(self, size: int) -> Requests:
        requests: list[JobRequest[Any, Any]] = []
        for number in range(size):
            job, owner, mail_number = self._id(), f"owner-{number % 7}", next(self._mails)
            bad = mail_number % 100 == 50
            if bad:
                self._tally.poison.add(job)
                kills = mail_number % self._fatal_every == 50
                self._tally.fatal += kills
                requests.append(JobRequest(fatal if kills else unreadable, None, id=job))
            else:
                seconds = round(self._rng.uniform(0.0, 0.05), 3)
                priority = self._rng.choice((0, 0, 0, 5))
                requests.append(JobRequest(send, seconds, owner=owner, priority=priority, id=job))
        return requests

    async def _bulk(self, engine: Engine, requests: Requests) -> None:
        """Enqueue; where no answer came, give up or ask again, as clients do."""
        gives_up = self._rng.random() < 0.3
        while (answered := await self._asked(engine, requests)) is None:
            self._tally.unanswered_calls += 1
            self._tally.unanswered(requests)
            if gives_up or self.stopping:
                return
            await asyncio.sleep(0.2)
        self._tally.answered(answered)
        # Asked again with the answer that another job is in its place: it was never created.
        self._tally.unknown -= {request.id or "" for request in requests}.difference(answered)

    async def _asked(self, engine: Engine, requests: Requests) -> list[str] | None:
        try:
            return [handle.id for handle in await engine.enqueue_many(requests)]
        except StoreUnavailable:
            return None

    async def _transaction(self, engine: Engine, requests: Requests) -> None:
        """Enqueue in a transaction of our own, and roll some back."""
        rolls_back = self._rng.random() < 0.3
        committing = False
        try:
            connection = await asyncpg.connect(self._url, statement_cache_size=0, timeout=10)
            try:
                transaction = connection.transaction()
                await transaction.start()
                await engine.enqueue_many(requests, connection=connection)
                if rolls_back:
                    await transaction.rollback()
                    self._tally.rolled_back += len(requests)
                    return
                committing = True
                await transaction.commit()
            finally:
                await connection.close(timeout=5)
        except _UNREACHABLE:
            self._tally.unanswered_calls += 1
            if committing:
                self._tally.unanswered(requests)
        else:
            self._tally.answered([request.id or "" for request in requests])


class Follower:
    """Reads the event stream from the start, as pages do, and counts completions by job."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._sequence = 0
        self.completions: Counter[str] = Counter()
        self.stopping = False

    async def run(self) -> None:
        """Follow until `stopping` is set, and then to the end."""
        while True:
            try:
                await self._follow()
                return
            except StoreUnavailable:  # it began during an outage
                await asyncio.sleep(0.2)

    async def _follow(self) -> None:
        async with open_store(self._url) as store:
            while True:
                last = self.stopping
                try:
                    page = await store.changes_since(self._sequence, limit=_FOLLOWED)
                except StoreUnavailable:
                    await asyncio.sleep(0.2)
                    continue
                for event in page:
                    self._sequence = event.sequence
                    self.completions[event.job_id] += event.name is EventName.COMPLETE
                if not page:
                    if last:
                        return
                    await asyncio.sleep(0.2)

    def missed(self, stored: Mapping[str, StoredJob]) -> list[str]:
        """Return a finding for each job whose completion it saw not once."""
        seen = self.completions
        return [
            f"the stream showed {seen[job]} completions of {job}, not {kept.completions}"
            for job, kept in stored.items()
            if seen[job] != kept.completions
        ]
