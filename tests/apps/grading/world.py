"""The grading app, its API, a relay and a database, in one event loop."""

import asyncio
import contextlib
import json
from pathlib import Path
from random import Random

import httpx

from holdfast import Engine, JobFilter, SystemClock
from holdfast.fetch import Fetcher
from holdfast.http import HttpSettings, create_app
from holdfast.messaging import JobPublisher
from holdfast_grading.app import Grading
from holdfast_grading.notices import NOTICE
from holdfast_grading.settings import GradingSettings
from holdfast_grading.submissions import Submissions

SETTINGS = HttpSettings(secret_key="a secret of the tests", admin_token="a token of the tests")


class ShiftedClock(SystemClock):
    """The machine's clock, whose time of day a test may move forward."""

    def __init__(self):
        self._shift = 0.0

    def wall(self):
        return super().wall() + self._shift

    def advance(self, seconds):
        self._shift += seconds


async def no_names(host, port):
    """Resolve `site.example` only; no question leaves the machine."""
    if host == "site.example":
        return ["127.0.0.1"]
    raise OSError(-2, "Name or service not known")


def loopback_fetcher():
    """Return a fetcher to which 127.0.0.1 stands for the public internet."""
    return Fetcher(allowed_networks=("127.0.0.1/32",), resolver=no_names)


def grading(folder: Path, *, clock=None, **settings) -> Grading:
    chosen = GradingSettings(files=folder / "files", **settings)
    return Grading(chosen, new_fetcher=loopback_fetcher, clock=clock, rng=Random(1))


class World:
    """An engine with the app; `settle` relays and works until nothing is left to do."""

    def __init__(self, url, folder, *, clock=None, **settings):
        self.app = grading(folder, clock=clock, **settings)
        options = {} if clock is None else {"clock": clock}
        self.engine = Engine(url, apps=[self.app.app], **options)

    @property
    def submissions(self):
        return Submissions(self.engine)

    async def relay(self):
        """Publish what is due, as jobs."""
        publisher = JobPublisher(self.engine, self.app.message_jobs)
        relay = self.engine.relay(publisher)
        await relay.run(until_idle=True)
        return relay.published

    async def settle(self):
        """Relay and work until nothing is due."""
        while await self.relay():
            await self.engine.work(until_idle=True)

    async def notices(self, owner):
        """Return the notices for `owner`, oldest first, as (status, reason)."""
        jobs = (await self.engine.list(JobFilter(owner=owner, kinds=(NOTICE,)))).jobs
        metas = [json.loads(job.meta) for job in reversed(jobs)]
        return [(meta["status"], meta["failureReason"]) for meta in metas]


@contextlib.asynccontextmanager
async def grading_world(url, folder, **settings):
    world = World(url, folder, **settings)
    async with world.engine:
        yield world


@contextlib.asynccontextmanager
async def served_world(url, folder, **settings):
    """A world with its API, and `client` on this machine."""
    async with (
        grading_world(url, folder, **settings) as world,
        contextlib.AsyncExitStack() as stack,
    ):
        engine = world.engine
        world.asgi = create_app(engine, [world.app], SETTINGS, outbox=engine.outbox)
        await stack.enter_async_context(world.asgi.router.lifespan_context(world.asgi))

        async def browser(host="127.0.0.1"):
            transport = httpx.ASGITransport(world.asgi, client=(host, 50_000))
            client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
            return await stack.enter_async_context(client)

        world.browser = browser
        world.client = await browser()
        yield world


def run(scenario):
    asyncio.run(scenario())
