"""The dashboard in an app of the user's own, below any path."""

import asyncio
import contextlib

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
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


def test_an_empty_token_is_refused(tmp_path):
    async def check():
        async with Engine(f"sqlite:///{tmp_path / 'own.db'}") as engine:
            with pytest.raises(ValueError, match="admin_token"):
                ops_dashboard(engine, admin_token=" ")

    asyncio.run(check())
