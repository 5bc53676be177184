"""Small pages by address through the ingestion service, compared with a bare loop of httpx.

The bare loop fetches with three in flight, extracts with the same extractor in child processes, and
stores each text in a file with one fsync. It has no queue, so after a crash it would not know what
it had done; it checks no address, cuts no chunks and indexes no words. The service does all of it.
Its time runs from the first request that adds documents to the last document that is done.
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from campaigns.service import ServiceProcess, until
from tests.support.postgres_server import PostgresMissing, PostgresServer

from benchmarks.measure import Goal, Row, best_rates, rate_ratios, sized
from holdfast.bootstrap import migrate
from holdfast.clock import SYSTEM_CLOCK
from holdfast_ingestion.app import create
from holdfast_ingestion.extraction.extractor import ExtractionLimits, Extractor
from holdfast_ingestion.formats import Format

OURS = "Holdfast's ingestion service"
BARE = "a bare loop of httpx, 3 in flight"
IN_FLIGHT = 3
BATCH = 100
WARM_UP = 12
"""Documents before the measurement: the extractors of both contenders have started by then."""

SITE = r"""
import asyncio, sys
HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n"
PAGE = "<html><head><title>{}</title></head><body><article>{}</article></body></html>"

async def answer(reader, writer):
    try:
        while True:
            path = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1].decode()
            lines = [f"<p>Sentence {n} of page {path} has a few words.</p>" for n in range(12)]
            page = PAGE.format(path, "".join(lines))
            writer.write((HEAD.format(len(page)) + page).encode())
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()

async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


@contextlib.contextmanager
def site() -> Iterator[str]:
    """Yield the address of a site that answers every path with a small page of its own."""
    command = [sys.executable, "-c", SITE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def bare_rate(address: str, count: int) -> float:
    """Return documents a second of the bare loop."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_bare_rate(address, count, Path(folder)))


async def _bare_rate(address: str, count: int, folder: Path) -> float:
    async with (
        httpx.AsyncClient(trust_env=False) as client,
        Extractor(ExtractionLimits(), SYSTEM_CLOCK) as extractor,
    ):

        async def fetch(numbers: Iterator[int]) -> None:
            for number in numbers:
                answer = await client.get(f"{address}/{number}")
                found = await extractor.extract(answer.content, Format.HTML, answer.encoding)
                await asyncio.to_thread(_store, folder / str(number), found.text)

        async def fetch_all(numbers: range) -> None:
            shared = iter(numbers)
            await asyncio.gather(*(fetch(shared) for _ in range(IN_FLIGHT)))

        await fetch_all(range(WARM_UP))
        begin = time.perf_counter()
        await fetch_all(range(WARM_UP, WARM_UP + count))
        return count / (time.perf_counter() - begin)


def _store(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def service_rate(address: str, count: int, server: PostgresServer | None = None) -> float:
    """Return documents a second of the service, on SQLite or on a new database of `server`."""
    folder = Path(tempfile.mkdtemp())
    name = None if server is None else server.create_database()
    url = f"sqlite:///{folder / 'jobs.db'}"
    if server is not None and name is not None:
        url = server.url(name)
    asyncio.run(migrate(url, [create({}).app]))
    # The bare loop extracts no concepts either.
    settings = {
        "FETCH_ALLOW_PRIVATE": "1",
        "INGESTION_CONCURRENCY": str(IN_FLIGHT),
        "INGESTION_CONCEPTS": "0",
    }
    try:
        app = "holdfast_ingestion.app:create"
        with ServiceProcess(app, folder, url, settings) as service, service.client() as client:
            _ingest(client, address, range(WARM_UP))
            return count / _ingest(client, address, range(WARM_UP, WARM_UP + count))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if server is not None and name is not None:
            server.drop_database(name)


def _ingest(client: httpx.Client, address: str, numbers: range) -> float:
    """Add documents, wait until all are done, and return the seconds that it took."""
    begin = time.time()
    for first in range(numbers.start, numbers.stop, BATCH):
        batch = range(first, min(first + BATCH, numbers.stop))
        body = {"documents": [{"url": f"{address}/{number}"} for number in batch]}
        client.post("/v3/documents/batch", json=body).raise_for_status()

    def all_done() -> bool:
        # Asking for one document costs the service next to nothing.
        waiting = {"status": ["queued", "fetching", "extracting", "indexing"], "limit": 1}
        return not client.get("/v3/documents", params=waiting).json()["documents"]

    if not until(all_done, 600):
        raise RuntimeError("the documents were not done in time")
    added = _newest(client, len(numbers))
    assert all(each["status"] == "done" for each in added), added[0]
    return max(datetime.fromisoformat(each["finishedAt"]).timestamp() for each in added) - begin


def _newest(client: httpx.Client, count: int) -> list[dict[str, Any]]:
    """Return the `count` documents that were added last."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while len(found) < count:
        params = {"limit": min(200, count - len(found)), "cursor": cursor}
        page = client.get("/v3/documents", params=params).raise_for_status().json()
        found += page["documents"]
        cursor = page["nextCursor"] or ""
        if not cursor:
            break
    assert len(found) == count, f"{len(found)} of {count} documents are listed"
    return found


def rows() -> list[Row]:
    """Run every row of this file."""
    count, found = sized(100, 1000), []
    with site() as address, contextlib.ExitStack() as stack:
        places: dict[str, PostgresServer | None] = {"SQLite": None}
        with contextlib.suppress(PostgresMissing):
            places["PostgreSQL"] = stack.enter_context(PostgresServer(fsync=True))
        for place, server in places.items():
            rates = best_rates(
                {
                    OURS: partial(service_rate, address, count, server),
                    BARE: partial(bare_rate, address, count),
                },
                rounds=sized(1, 3),
            )
            found.append(
                Row(
                    f"{count} small pages ingested, on {place}",
                    ratios=rate_ratios(rates, OURS),
                    counts={"documents/s": round(rates[OURS], 1)},
                    goals=[Goal(BARE, 0.6)],
                )
            )
    return found
