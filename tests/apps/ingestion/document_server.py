"""A real server of the ingestion app in a thread, with a worker and web sites in its event loop."""

import asyncio
import copy
import secrets
import time
from pathlib import Path
from typing import Any

from tests.apps.ingestion.sites import Site
from tests.apps.ingestion.world import ingestion
from tests.http.live_server import SOON, Serving

from holdfast_ingestion.model_settings import ModelSettings


class DocumentServer(Serving):
    """A server on an SQLite file; `working` says whether a worker runs beside it."""

    def __init__(
        self, folder: Path, *, others: Any = (), working: bool = True, **settings: Any
    ) -> None:
        settings.setdefault("models", ModelSettings())
        super().__init__(folder, served=ingestion(folder, **settings), others=others)
        self._working = working
        self._tasks: list[asyncio.Task[Any]] = []
        self._sites: list[asyncio.Server] = []
        self.output: list[str] = []

    def __enter__(self):
        super().__enter__()
        if self._working:
            self.start_worker()
        return self

    def __exit__(self, *error):
        self.run(self._close())
        super().__exit__(*error)

    async def _close(self):
        for server in self._sites:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def start_worker(self):
        async def begin():
            self._tasks.append(asyncio.create_task(self.engine.work()))

        self.run(begin())

    def site(self):
        """Return a new site; it answers until the server ends."""

        async def begin():
            made = Site()
            server = await asyncio.start_server(made._serve, "127.0.0.1", 0)
            made.port = server.sockets[0].getsockname()[1]
            self._sites.append(server)
            return made

        return self.run(begin())

    def tenant(self):
        """Return this server as a new organisation sees it: its `client` has a key."""
        found = copy.copy(self)
        owner = secrets.token_hex(4)
        found.client = self.member(f"org-{owner}", owner)
        return found

    def member(self, organisation, owner="someone"):
        """Return a client with an API key of `organisation`."""
        creating = self.engine.keys.create(owner=owner, organisation=organisation, name="test")
        return self.browser(authorization=f"Bearer {self.run(creating).secret}")

    def hold(self, host):
        """Pause a site whose first document was just added."""
        name = f"host:{host}"
        known = self.engine.downstreams
        self.until(lambda: name in self.run(known.states()))
        self.run(known.hold(name))

    # -- documents -----------------------------------------------------------------------------

    def add(self, client=None, **fields):
        """Add a document through the API; return its id."""
        answer = (client or self.client).post("/v3/documents", json=fields)
        assert answer.status_code in {200, 202}, answer.text
        return answer.json()["id"]

    def show(self, document_id, client=None):
        answer = (client or self.client).get(f"/v3/documents/{document_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def wait(self, document_id, *statuses, client=None):
        """Return the document once it is in one of `statuses`; by default once it is finished."""
        wanted = statuses or ("done", "failed")
        return self.until(
            lambda: (found := self.show(document_id, client))["status"] in wanted and found
        )

    def until(self, found):
        """Wait until `found()` is true; return its value."""
        end = time.monotonic() + SOON
        while time.monotonic() < end:
            if value := found():
                return value
            time.sleep(0.05)
        raise AssertionError("it did not happen")
