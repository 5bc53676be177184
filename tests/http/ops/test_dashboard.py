"""The dashboard in an app of the user's own, below any path."""

import asyncio
import contextlib

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from tests.http.live_server import demo_app

from holdfast import Engine
from holdfast.http import ops_dashboard

TOKEN = "a token of the user's app"


@contextlib.asynccontextmanager
async def mounted(tmp_path, app, path):
    """Yield a client of `app` with the dashboard below `path`."""
    engine = Engine(f"sqlite:///{tmp_path / 'own.db'}", apps=[demo_app()])
    async with engine:
        app.mount(path, ops_dashboard(engine, admin_token=TOKEN))
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://own.example", headers={"accept": "text/html"}
        ) as client:
            yield engine, client


@pytest.mark.parametrize("path", ["/ops", "/internal/holdfast"])
@pytest.mark.parametrize("kind", [FastAPI, Starlette])
def test_links_files_and_forms_stay_below_the_mount_path(tmp_path, kind, path):
    async def check():
        async with mounted(tmp_path, kind(), path) as (engine, client):
            asked = await client.get(f"{path}/jobs")
            assert asked.headers["location"] == f"{path}/login?to={path}/jobs"
            entered = await client.post(
                f"{path}/login", data={"token": TOKEN, "to": f"{path}/jobs"}
            )
            assert entered.headers["location"] == f"{path}/jobs"
            assert "holdfast_admin" in entered.headers["set-cookie"]

            page = (await client.get(f"{path}/downstreams")).text

            for name in ("href", "src", "action", "hx-get", "hx-post", "hx-sse:connect"):
                for there in page.split(f' {name}="')[1:]:
                    to = there.partition('"')[0]
                    assert to.startswith(f"{path}/") or to == "#board", (name, to)
            style = page.partition(f'href="{path}/static/ops/ops.css')[2].partition('"')[0]
            assert (await client.get(f"{path}/static/ops/ops.css{style}")).status_code == 200
            held = await client.post(f"{path}/downstreams/hold", data={"name": "mill"})
            assert held.headers["location"] == f"{path}/downstreams?note=held"
            assert (await engine.downstreams.get("mill")).circuit.held
            assert "frame-ancestors 'none'" in held.headers["content-security-policy"]

    asyncio.run(check())


def test_a_write_from_another_site_is_refused_here_too(tmp_path):
    async def check():
        async with mounted(tmp_path, Starlette(), "/ops") as (_, client):
            await client.post("/ops/login", data={"token": TOKEN})
            answer = await client.post(
                "/ops/downstreams/hold", data={"name": "mill"}, headers={"origin": "http://other"}
            )
            assert answer.status_code == 403

    asyncio.run(check())


@pytest.mark.parametrize(
    ("tokens", "named"),
    [
        ({"admin_token": ""}, "admin_token"),
        ({"admin_token": " " * 20}, "admin_token"),
        ({"admin_token": "change me"}, "admin_token"),
        ({"admin_token": f"ann:{TOKEN},ben:short"}, "admin_token"),
        ({"admin_token": TOKEN, "reader_token": "short"}, "reader_token"),
    ],
)
def test_a_token_that_could_be_guessed_is_refused(tmp_path, tokens, named):
    async def check():
        async with Engine(f"sqlite:///{tmp_path / 'own.db'}") as engine:
            with pytest.raises(ValueError, match=f"^{named}: .* 16 characters"):
                ops_dashboard(engine, **tokens)

    asyncio.run(check())


def test_what_the_app_keeps_of_a_request_is_left_alone(tmp_path):
    seen = []

    class Keeping:
        """Middleware of the user's app with a session of its own."""

        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            scope.setdefault("state", {})["session"] = "the app's own"
            await self.app(scope, receive, send)
            seen.append((scope["app"], scope["state"]))

    async def check():
        app = Starlette(middleware=[Middleware(Keeping)])
        async with mounted(tmp_path, app, "/ops") as (_, client):
            assert (await client.get("/ops/login")).status_code == 200
        assert seen == [(app, {"session": "the app's own"})]

    asyncio.run(check())


@pytest.mark.parametrize(
    "header", [{"authorization": "Bearer of-the-proxy"}, {"x-api-key": "of the app"}]
)
def test_the_keys_of_the_app_or_of_a_proxy_are_left_alone(tmp_path, header):
    async def check():
        async with mounted(tmp_path, FastAPI(), "/ops") as (_, client):
            client.headers.update(header)
            assert (await client.get("/ops/login")).status_code == 200
            assert (await client.get("/ops/jobs")).status_code == 303
            await client.post("/ops/login", data={"token": TOKEN})
            assert (await client.get("/ops/jobs")).status_code == 200

    asyncio.run(check())
