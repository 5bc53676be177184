"""A real HTTP server in a thread, over an engine on an SQLite file."""

import asyncio
import contextlib
import json
import threading
from dataclasses import dataclass, replace

import httpx
import uvicorn
from tests.support.cookies import session_cookie

from holdfast.bootstrap import Engine
from holdfast.clock import SYSTEM_CLOCK
from holdfast.errors import ErrorInfo, Permanent
from holdfast.http import HttpSettings, ServedApp, create_app
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.context import JobContext
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.telemetry.prometheus import StoreMetrics

SECRET, TOKEN = "a secret of the tests", "an admin token of the tests"
READER = "a reader token of the tests"
SOON = 60.0
# No TLS here, and loading the certificates takes 30 ms for each client.
PLAIN = {"trust_env": False, "verify": False}
SETTINGS = HttpSettings(secret_key=SECRET, admin_token=TOKEN)


@dataclass(frozen=True, slots=True)
class Order:
    number: int = 1
    fails: str = ""


def demo_app() -> App:
    """Return an app with one job, which fails with a given code."""
    app = App("demo", errors=[ErrorInfo("SOURCE_GONE", "The grain is gone.", 404)])

    @app.job(downstream=Downstream("mill"))
    async def grind(ctx: JobContext, args: Order) -> int:
        if args.fails:
            raise Permanent(args.fails, "ground to a halt")
        return args.number

    @grind.before_retry
    def check(job):
        if "gone" in (job.meta or ""):
            raise Permanent("SOURCE_GONE")

    return app


class Serving:
    """A running server; `client` keeps cookies, `run` awaits on its event loop."""

    def __init__(self, tmp_path, served=None, clock=SYSTEM_CLOCK, others=(), dlq=None, **changes):
        self.served = served if served is not None else demo_app()
        every = [self.served, *others]
        apps = [each.app if isinstance(each, ServedApp) else each for each in every]
        self.engine = Engine(f"sqlite:///{tmp_path / 'work.db'}", apps=apps, clock=clock)
        settings = replace(SETTINGS, **changes)
        outbox = self.engine.outbox
        metrics = StoreMetrics(self.engine, outbox).exposition
        self.asgi = create_app(
            self.engine, every, settings, outbox=outbox, dlq=dlq, metrics=metrics
        )
        self.state = self.asgi.state.server
        self._clients = []

    def __enter__(self):
        ready = threading.Event()

        async def live():
            self._loop = asyncio.get_running_loop()
            config = uvicorn.Config(
                self.asgi, port=0, lifespan="on", log_level="warning", http="h11", ws="none",
                timeout_graceful_shutdown=3, proxy_headers=False,
            )  # fmt: skip
            self._server = uvicorn.Server(config)
            async with self.engine:
                task = asyncio.create_task(self._server.serve())
                while not self._server.started and not task.done():
                    await asyncio.sleep(0.01)
                if self._server.started:
                    port = self._server.servers[0].sockets[0].getsockname()[1]
                    self.url = f"http://127.0.0.1:{port}"
                ready.set()
                await task

        self._thread = threading.Thread(target=lambda: asyncio.run(live()))
        self._thread.start()
        assert ready.wait(SOON)
        self.client = self.browser()
        return self

    def __exit__(self, *_):
        for client in self._clients:
            client.close()
        self.state.stopping.set()
        self._server.should_exit = True
        self._thread.join(SOON)

    def browser(self, **headers):
        """Return a client with separate cookies."""
        client = httpx.Client(base_url=self.url, timeout=SOON, headers=headers, **PLAIN)
        self._clients.append(client)
        return client

    def admin(self):
        return self.browser(authorization=f"Bearer {TOKEN}")

    def reader(self):
        """Return a client of an operator who may only look; the server needs `reader_token`."""
        return self.browser(authorization=f"Bearer {READER}")

    def run(self, coroutine):
        return self.begin(coroutine).result(SOON)

    def begin(self, coroutine):
        """Start `coroutine` on its event loop; return its future."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def owner(self, client=None):
        """Return the owner of a client's cookie; the client gets a cookie if it has none."""
        client = client or self.client
        client.get("/api/jobs")
        return session_cookie(client)[1].split(".")[0]

    def enqueue(self, order=None, client=None, **options):
        """Enqueue a job of the client."""
        options.setdefault("owner", self.owner(client))
        return self.run(self.engine.enqueue("demo.grind", order or Order(), **options)).id

    def work(self):
        self.run(self.engine.work(until_idle=True))

    @contextlib.contextmanager
    def stream(self, client=None, **headers):
        """Open the live stream, and yield a function that returns its next message."""
        client = client or self.client
        self.owner(client)
        with client.stream("GET", "/api/events", headers=headers) as answer:
            lines = answer.iter_lines()
            yield answer, lambda: next_message(lines)


def next_message(lines):
    """Return the next message that has data, as (event, id, data)."""
    fields = {}
    for line in lines:
        if line == "" and "data" in fields:
            return fields["event"], fields.get("id"), json.loads(fields["data"])
        name, _, value = line.partition(": ")
        fields = {} if line == "" else {**fields, name: value}
    return None
