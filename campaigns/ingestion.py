"""SIGKILL for the whole ingestion service while documents are added, fetched and indexed.

Clients send each document until it is acknowledged, so a request whose answer was lost is repeated.
At the end each document must be there once and `done`, with exactly the chunks that a chunking
outside of the service gives, and search must find it by a sentence of its own.
"""

import asyncio
import contextlib
import queue
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import httpx

from campaigns.plan import CampaignOutcome, Plan
from campaigns.sample_documents import SampleDocument, Sites, sample_documents
from campaigns.service import SHORT_LEASES, ServiceProcess, until
from campaigns.temporary_store import TemporaryStore, read_all, temporary_store
from holdfast.bootstrap import Engine
from holdfast_ingestion.app import create

Document = dict[str, Any]
"""A document in the JSON form of the API."""

_APP = "holdfast_ingestion.app:create"
# Concepts are taken 15 s after a document is done, and are not judged here.
_SETTINGS = {**SHORT_LEASES, "FETCH_ALLOW_PRIVATE": "1", "INGESTION_CONCEPTS": "0"}
_THREADS = 3
_SETTLE = 300.0
_CLEANUP = 30.0
_FINISHING = 30.0
_AT_A_TIME = 3
_USED_UP = {"FETCH_5XX", "FETCH_FAILED"}
"""Codes of documents whose last attempt met the failing site, after kills or failures before; a
person would retry these, and the campaign does. Kills alone fail no document."""


def run(plan: Plan) -> CampaignOutcome:
    """Run the campaign."""
    sites = Sites(failures=plan.pick(1000, 4))
    with (
        sites.running(),
        temporary_store(plan.store, plan.folder, apps=[create({}).app]) as target,
        ServiceProcess(_APP, plan.folder, target.url, _SETTINGS) as service,
    ):
        documents = sample_documents(plan.pick(300, 60), plan.rng("documents"), sites)
        return _run(plan, service, target, sites, documents)


def _run(
    plan: Plan,
    service: ServiceProcess,
    target: TemporaryStore,
    sites: Sites,
    documents: Sequence[SampleDocument],
) -> CampaignOutcome:
    outcome, kills = CampaignOutcome(), plan.pick(30, 5)
    clients = _Clients(service)
    with clients.running():
        _kill_repeatedly(plan, service, sites, clients, documents)
        acknowledged = until(lambda: len(clients.ids) == len(documents), _SETTLE)
    outcome.expect(acknowledged, "not every document was acknowledged in time")
    with service.client() as client:
        settled = _Settlement(client, len(documents))
        outcome.expect(until(settled.reached, _SETTLE), "not every document was settled in time")
        found = _all_documents(client)
        outcome.findings += clients.refused
        outcome.findings += judge_documents(clients.ids, documents, found)
        outcome.findings += _not_found(client, clients.ids, documents)
    stored = asyncio.run(_read_store(target.url))
    outcome.findings += judge_chunks(clients.ids, documents, stored)
    outcome.findings += asyncio.run(_judge_jobs(target, clients.ids))
    # Files of requests that were killed are deleted when the service starts.
    service.stop()
    service.start()
    kept = {clients.ids[each.number] for each in documents if each.is_file}
    outcome.expect(
        until(lambda: set(service.files("documents")) == kept, _CLEANUP),
        f"{len(service.files('documents'))} files for {len(kept)} documents with a file",
    )
    outcome.figures |= {
        "kills": kills,
        "documents": len(found),
        "chunks": len(stored),
        "requests_repeated": clients.repeated,
        "deduplicated": clients.deduplicated,
        "attempts_above_one": sum(each["attemptsMade"] > 1 for each in found.values()),
        **{f"retried_by_hand_{code}": settled.retried[code] for code in sorted(_USED_UP)},
        "fetches": sites.requests,
    }
    return outcome


def _kill_repeatedly(
    plan: Plan,
    service: ServiceProcess,
    sites: Sites,
    clients: "_Clients",
    documents: Sequence[SampleDocument],
) -> None:
    """Add a share of the documents in each round, and kill the service in the middle of it."""
    rng, kills = plan.rng(), plan.pick(30, 5)
    for number in range(kills):
        clients.add(documents[number::kills])
        sites.failing = rng.random() < 0.5
        time.sleep(rng.uniform(0.0, 2.0))
        if number % 3 == 2:
            _let_some_finish(service)
        service.kill(rng)
        service.start()
    sites.failing = False


def _let_some_finish(service: ServiceProcess) -> None:
    """Wait until as many more documents are done as run at a time, or for a while.

    On a busy machine two seconds are too short for any. The oldest documents would be begun in
    every round, and rightly fail when they have lost nine workers.
    """
    with service.client() as client:
        found = _all_documents(client)
        enough = min(_done(found) + _AT_A_TIME, len(found))
        until(lambda: _done(_all_documents(client)) >= enough, _FINISHING)


def _done(found: Mapping[str, Document]) -> int:
    return sum(each["status"] == "done" for each in found.values())


class _Clients:
    """Adds documents from several threads, each until it is acknowledged."""

    def __init__(self, service: ServiceProcess) -> None:
        self._service = service
        self._waiting: queue.Queue[SampleDocument] = queue.Queue()
        self._stop = threading.Event()
        self.ids: dict[int, str] = {}
        """The acknowledged id of each document, by its number."""
        self.refused: list[str] = []
        self.repeated = 0
        self.deduplicated = 0

    def add(self, documents: Sequence[SampleDocument]) -> None:
        """Have these added in the background."""
        for each in documents:
            self._waiting.put(each)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Send in the background while the block runs."""
        threads = [threading.Thread(target=self._send_all) for _ in range(_THREADS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _send_all(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(queue.Empty):
                self._send(self._waiting.get(timeout=0.1))

    def _send(self, document: SampleDocument) -> None:
        while not self._stop.is_set():
            try:
                with self._service.client() as client:
                    answer = client.post("/v3/documents", **document.request())
            except httpx.HTTPError:
                # It may be stored or not: send it again.
                self.repeated += 1
                self._stop.wait(0.1)
                continue
            if answer.status_code in {200, 202}:
                self.ids[document.number] = answer.json()["id"]
                self.deduplicated += answer.json()["deduplicated"]
                return
            if answer.status_code not in {429, 503}:
                self.refused.append(f"unexpected: {document.number}: {answer.text[:200]}")
                return
            self._stop.wait(0.2)


class _Settlement:
    """Waits until all documents are done, and retries those whose attempts were used up."""

    def __init__(self, client: httpx.Client, count: int) -> None:
        self._client = client
        self._count = count
        self.retried: Counter[str] = Counter()
        """Documents that were retried by hand, by the code of their failure."""

    def reached(self) -> bool:
        """Retry what can be retried; return whether nothing is left to wait for."""
        documents = _all_documents(self._client)
        again = [
            each
            for each in documents.values()
            if each["status"] == "failed" and each["failedCode"] in _USED_UP
        ]
        for each in again:
            answer = self._client.post(f"/v3/documents/{each['id']}/retry")
            self.retried[each["failedCode"]] += answer.status_code == 202
        ended = sum(each["status"] in {"done", "failed"} for each in documents.values())
        return not again and ended >= self._count


def _all_documents(client: httpx.Client) -> dict[str, Document]:
    found: dict[str, Document] = {}
    cursor = ""
    while True:
        page = client.get("/v3/documents", params={"limit": 200, "cursor": cursor}).json()
        found |= {each["id"]: each for each in page["documents"]}
        cursor = page["nextCursor"] or ""
        if not cursor:
            return found


# -- what must hold ------------------------------------------------------------------------------


def judge_documents(
    ids: Mapping[int, str], documents: Sequence[SampleDocument], found: Mapping[str, Document]
) -> list[str]:
    """Return what is wrong with the documents that the API lists; `ids` were acknowledged."""
    findings = []
    for number, document_id in sorted(ids.items()):
        shown = found.get(document_id)
        if shown is None or shown["status"] != "done":
            ended = "missing" if shown is None else f"{shown['status']}, {shown['failedReason']}"
            findings.append(f"lost: {number} ({documents[number].format}): {ended}")
        elif shown["chunks"] != len(documents[number].chunks):
            findings.append(f"unexpected: {number} says that it has {shown['chunks']} chunks")
    shared = [each for each, count in Counter(ids.values()).items() if count > 1]
    unknown = found.keys() - set(ids.values())
    findings += [f"unexpected: {each} is the id of several documents" for each in shared]
    return findings + [f"duplicate: {each} was not acknowledged" for each in sorted(unknown)]


def _not_found(
    client: httpx.Client, ids: Mapping[int, str], documents: Sequence[SampleDocument]
) -> list[str]:
    """Return the documents that are not the first hit for their own sentences."""
    findings = []
    for each in documents:
        hits = client.get("/v3/search", params={"q": each.sentence, "limit": 2}).json()["hits"]
        if not hits or hits[0]["documentId"] != ids.get(each.number):
            findings.append(f"lost: {each.number} ({each.format}) is not found by its sentence")
    return findings


class StoredChunk(NamedTuple):
    """A row of the table of chunks."""

    document: str
    position: int
    start: int
    end: int
    text: str


_POSTGRES_CHUNKS = "SELECT document, position, start_offset, end_offset, text FROM ingestion.chunks"
_SQLITE_CHUNKS = _POSTGRES_CHUNKS.replace("ingestion.", "ingestion_")
_SQLITE_CHECK = "INSERT INTO ingestion_words (ingestion_words, rank) VALUES (:command, 1)"


async def _read_store(url: str) -> list[StoredChunk]:
    """Return all chunks from the database itself; check the index of their words on SQLite.

    Raises:
        Exception: the index does not agree with the chunks.
    """
    async with Engine(url) as engine:
        is_sqlite = engine.database.dialect == "sqlite"
        rows = await engine.database.fetch(_SQLITE_CHUNKS if is_sqlite else _POSTGRES_CHUNKS)
        if is_sqlite:
            async with engine.database.transaction() as tx:
                await tx.fetch(_SQLITE_CHECK, {"command": "integrity-check"})
    return [StoredChunk(*row) for row in rows]


def judge_chunks(
    ids: Mapping[int, str], documents: Sequence[SampleDocument], stored: Sequence[StoredChunk]
) -> list[str]:
    """Return where the stored chunks are not exactly those that were computed outside."""
    by_document: dict[str, Counter[StoredChunk]] = defaultdict(Counter)
    for chunk in stored:
        by_document[chunk.document][chunk] += 1
    findings = []
    for each in documents:
        document_id = ids.get(each.number, "")
        rows = by_document.pop(document_id, Counter())
        wanted = Counter(
            StoredChunk(document_id, place, it.start, it.end, it.text)
            for place, it in enumerate(each.chunks)
        )
        for kind, count in (("lost", wanted - rows), ("duplicate", rows - wanted)):
            if count:
                findings.append(f"{kind}: {count.total()} chunks of {each.number} ({each.format})")
    return findings + [f"duplicate: chunks of {each}, no document" for each in by_document]


async def _judge_jobs(target: TemporaryStore, ids: Mapping[int, str]) -> list[str]:
    """Return the jobs that are not complete, and documents without a job."""
    async with target.store() as store:
        jobs = await read_all(store)
    findings = [
        f"lost: job {job_id} is {job.status}"
        for job_id, job in jobs.items()
        if job.status != "complete"
    ]
    findings += [
        f"duplicate: job {job_id} was completed {job.completions} times"
        for job_id, job in jobs.items()
        if job.completions > 1
    ]
    wanted = {f"doc-{document_id}" for document_id in ids.values()}
    return findings + [f"unexpected: job {each}" for each in sorted(wanted ^ jobs.keys())]
