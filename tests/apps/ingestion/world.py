"""The app, its API, a worker and a database, in one event loop."""

import asyncio
import contextlib
from pathlib import Path

import httpx
from tests.support.waiting import until

from holdfast import Engine, InvalidState
from holdfast.fetch import Fetcher, FetchLimits
from holdfast.http import HttpSettings, create_app
from holdfast_ingestion.app import Ingestion
from holdfast_ingestion.model_settings import ModelSettings
from holdfast_ingestion.repository import Documents
from holdfast_ingestion.settings import IngestionSettings

SETTINGS = HttpSettings(secret_key="a secret of the tests", admin_token="a token of the tests")
LIMITS = FetchLimits(max_bytes=2**20, max_seconds=30.0, connect_seconds=10.0)


async def no_names(host, port):
    """Resolve `site.example` only; no question leaves the machine."""
    if host == "site.example":
        return ["127.0.0.1"]
    raise OSError(-2, "Name or service not known")


def ingestion(folder: Path, limits=LIMITS, clock=None, **settings) -> Ingestion:
    """Return the app; to its fetcher, 127.0.0.1 stands for the public internet."""

    def new_fetcher():
        return Fetcher(limits, allowed_networks=("127.0.0.1/32",), resolver=no_names)

    models = settings.pop("models", ModelSettings(extracts_concepts=False))
    chosen = IngestionSettings(files=folder / "files", models=models, **settings)
    return Ingestion(chosen, new_fetcher=new_fetcher, clock=clock)


class World:
    """A server's API over an engine, without a socket; `work` runs a worker beside it."""

    def __init__(self, url, folder, limits=LIMITS, engine=None, app=None, **settings):
        self.app = app or ingestion(folder, limits, **settings)
        self.engine = engine or Engine(url, apps=[self.app.app])

    async def __aenter__(self):
        self._stack = contextlib.AsyncExitStack()
        await self._stack.enter_async_context(self.engine)
        self.asgi = create_app(self.engine, [self.app], SETTINGS)
        await self._stack.enter_async_context(self.asgi.router.lifespan_context(self.asgi))
        self.client = await self.browser()
        return self

    async def __aexit__(self, *error):
        await self._stack.__aexit__(*error)

    @property
    def documents(self):
        return Documents(self.engine.database)

    async def browser(self, host="127.0.0.1", **headers):
        """Return a client on this machine, or elsewhere."""
        transport = httpx.ASGITransport(self.asgi, client=(host, 50_000))
        client = httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", headers=headers
        )
        return await self._stack.enter_async_context(client)

    async def with_key(self, organisation, owner="someone"):
        """Return a client with an API key of `organisation`."""
        made = await self.engine.keys.create(owner=owner, organisation=organisation, name="test")
        return await self.browser(host="203.0.113.9", authorization=f"Bearer {made.secret}")

    @contextlib.asynccontextmanager
    async def working(self):
        """Run a worker while the block runs."""
        worker = asyncio.create_task(self.engine.work())
        try:
            yield
        finally:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)

    async def add(self, client=None, **fields):
        """Add a document; return its id."""
        answer = await (client or self.client).post("/v3/documents", json=fields)
        assert answer.status_code in {200, 202}, answer.text
        return answer.json()["id"]

    async def show(self, document_id, client=None):
        answer = await (client or self.client).get(f"/v3/documents/{document_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def finished(self, document_id):
        """Return the document once it is done or failed; its retries begin at once."""

        async def look():
            await asyncio.sleep(0.03)  # asking takes time from the worker
            document = await self.show(document_id)
            if document["state"] == "delayed":
                await self.expedite(f"doc-{document_id}")
            return document["status"] in {"done", "failed"} and document

        return await until(look)

    async def expedite(self, job_id):
        """Begin the next attempt of a job that waits, unless it has begun by itself meanwhile."""
        with contextlib.suppress(InvalidState):
            await self.engine.retry_now(job_id)

    async def search(self, query, client=None, **fields):
        answer = await (client or self.client).get("/v3/search", params={"q": query, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()["hits"]

    async def chunks(self, document_id):
        """Return (position, text) of the stored chunks."""
        table = (
            "ingestion_chunks" if self.engine.database.dialect == "sqlite" else "ingestion.chunks"
        )
        return await self.engine.database.fetch(
            f"SELECT position, text FROM {table} WHERE document = :id ORDER BY position",
            {"id": document_id},
        )
