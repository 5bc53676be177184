"""The time of every page and API route of operators, over HTTP from a server on loopback."""

import asyncio
import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from fastapi import FastAPI
from starlette.routing import BaseRoute, Mount

from benchmarks.measure import percentile
from holdfast.bootstrap import Engine
from holdfast.fetch import FETCH_ERRORS, Fetcher
from holdfast.http import HttpSettings, create_app, ops_dashboard
from holdfast.http.audited import OpsRoute
from holdfast.jobs.model import JobStatus
from holdfast.jobs.views import JobFilter
from holdfast.webhooks import webhooks_app

RUNS = 50
_TOKEN = "the admin token of a benchmark"
_LEFT_OUT = re.compile(r"/events$|/login$|/static/|/favicon|/assets/|/dlq")
"""Streams, the login, files, and a broker's queue, whose time is not that of the store."""
_FILTERED = (
    "/ops/jobs?status=failed",
    "/ops/jobs?owner=owner-7",
    "/ops/jobs?kind=bench.kind3&status=complete",
    "/ops/jobs?q=nowhere",
    "/ops/jobs?retried=1&error=nowhere",
    "/ops/dead-letters?error=nowhere",
    "/ops/dead-letters?kind=bench.kind3",
    "/ops/dead-letters/requeue?kind=bench.kind3",
    "/ops/owners?owner=owner-7",
    "/api/ops/jobs?q=nowhere",
    "/api/ops/jobs?attempts=3",
    "/api/dead-letters?errorText=nowhere",
)
"""The same pages with filters, of which some have no index."""


def measured(address: str) -> dict[str, float]:
    """Return the 95th percentile of each route on the store at `address`, in milliseconds."""
    engine = Engine(address, apps=[webhooks_app(Fetcher(), errors=FETCH_ERRORS)])
    settings = HttpSettings(secret_key="a secret key of a benchmark", admin_token=_TOKEN)
    app = create_app(engine, [], settings, outbox=engine.outbox)
    with (
        _served(engine, app) as (url, ids),
        httpx.Client(base_url=url, timeout=120.0, trust_env=False) as client,
    ):
        client.headers["authorization"] = f"Bearer {_TOKEN}"
        # The server builds its dashboard at the first request, so a second one names the pages.
        dashboard = ops_dashboard(engine, admin_token=_TOKEN)
        found = {*_paths(app.routes), *_paths(dashboard.routes, "/ops")}
        paths = {path for path in found if not _LEFT_OUT.search(path)}
        return {path: _p95(client, _filled(path, ids)) for path in sorted(paths | set(_FILTERED))}


def _filled(path: str, ids: dict[str, str]) -> str:
    """Return `path` with an id in place of each parameter, `{name}` or `{name:path}`."""
    return re.sub(r"{(\w+)(:\w+)?}", lambda parameter: ids[parameter[1]], path)


def _p95(client: httpx.Client, path: str) -> float:
    taken = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        answer = client.get(path)
        taken.append(time.perf_counter() - begin)
        if answer.status_code != 200:
            raise RuntimeError(f"{path} answered {answer.status_code}")
    return round(1000 * percentile(taken, 0.95), 1)


def _paths(routes: Iterable[BaseRoute], below: str = "") -> Iterator[str]:
    """Yield the templates of what operators read, of the dashboard or of the API for them."""
    for route in routes:
        if isinstance(route, Mount):
            yield from _paths(route.routes, below + route.path)
        elif (included := getattr(route, "original_router", None)) is not None:
            yield from _paths(included.routes, below)
        elif "GET" in (getattr(route, "methods", None) or ()) and (
            below == "/ops" or isinstance(route, OpsRoute)
        ):
            yield below + getattr(route, "path", "")


@contextmanager
def _served(engine: Engine, app: FastAPI) -> Iterator[tuple[str, dict[str, str]]]:
    """Serve `app` in a thread; yield its address, and an id for each parameter of a path."""
    found: dict[str, str] = {}
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", ws="none"))

    async def live() -> None:
        async with engine:
            failed = await engine.list(JobFilter(statuses=(JobStatus.FAILED,)), limit=1)
            webhook = await engine.webhooks.add("https://example.org/hooks")
            found.update(job_id=failed.jobs[0].id, webhook_id=webhook.id, owner="owner-7")
            await server.serve()

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}", found
    finally:
        server.should_exit = True
        thread.join()
