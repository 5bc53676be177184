"""Extensions by an app."""

import contextlib

import pytest
from fastapi import APIRouter, Request
from tests.http.live_server import Order, demo_app

from holdfast.errors import ErrorCode
from holdfast.http import ApiError, HttpSettings, Owner, ServedApp, state_of
from holdfast.http.plugins import meta_of


class Mill(ServedApp):
    """An app with a route, a streaming route, and a resource that is open while it runs."""

    def __init__(self, app):
        super().__init__(app)
        self.open = False

    def routes(self, state):
        router = APIRouter(prefix="/api/mill")

        @router.post("/orders", status_code=202)
        async def order(request: Request, owner: Owner):
            state = state_of(request)
            handle = await state.engine.enqueue("demo.grind", Order(), owner=owner)
            return {"id": handle.id}

        @router.post("/sacks", tags=["streamed"])
        async def sacks(request: Request):
            size = 0
            async for piece in request.stream():
                size += len(piece)
            return {"size": size}

        @router.put("/sacks")
        async def replace(request: Request):
            return {"size": len(await request.body())}

        inner = APIRouter(prefix="/harvest")

        @inner.post("/wagons", tags=["streamed"])
        async def wagons(request: Request):
            return {"size": len(await request.body())}

        router.include_router(inner)

        @router.get("/broken")
        async def broken():
            raise ApiError(ErrorCode.NOT_READY, "Not ground yet.", extra={"sacks": 3})

        return router

    @contextlib.asynccontextmanager
    async def running(self, state):
        self.open = True
        yield
        self.open = False


def test_routes_of_an_app_get_the_owner(serve):
    serving = serve(served=Mill(demo_app()))

    job_id = serving.client.post("/api/mill/orders").json()["id"]

    assert serving.client.get(f"/api/jobs/{job_id}").status_code == 200
    assert serving.browser().get(f"/api/jobs/{job_id}").status_code == 403
    assert "/api/mill/orders" in serving.client.get("/api/openapi.json").json()["paths"]


def test_only_a_route_that_streams_takes_a_large_body(serve):
    serving = serve(served=Mill(demo_app()), body_bytes=1000)

    assert serving.client.post("/api/mill/sacks", content=b"x" * 5000).json() == {"size": 5000}
    nested = serving.client.post("/api/mill/harvest/wagons", content=b"x" * 5000)
    assert nested.json() == {"size": 5000}
    assert serving.client.post("/api/mill/orders", content=b"x" * 5000).status_code == 413
    assert serving.client.put("/api/mill/sacks", content=b"x" * 5000).status_code == 413
    assert serving.client.put("/api/mill/sacks", content=b"x" * 500).json() == {"size": 500}


def test_a_streamed_route_whose_path_has_a_parameter_is_refused_at_the_start(serve):
    class Silo(ServedApp):
        def routes(self, state):
            router = APIRouter(prefix="/api/silos")
            router.add_api_route(
                "/{silo}/grain", lambda silo: silo, methods=["PUT"], tags=["streamed"]
            )
            return router

    with pytest.raises(ValueError, match=r"PUT /api/silos/\{silo\}/grain .* no parameters"):
        serve(served=Silo(demo_app()))


def test_an_error_of_an_app_has_the_common_form_and_its_own_fields(serve):
    answer = serve(served=Mill(demo_app())).client.get("/api/mill/broken")

    assert answer.status_code == 409
    assert answer.json() == {
        "error": {"code": "NOT_READY", "message": "Not ground yet."},
        "sacks": 3,
    }


def test_what_an_app_opens_is_open_while_the_server_runs(tmp_path):
    from tests.http.live_server import Serving

    mill = Mill(demo_app())
    with Serving(tmp_path, served=mill):
        assert mill.open
    assert not mill.open


def test_a_plain_app_is_served_without_more(serving):
    plain = serving.state.apps["demo"]

    assert plain.routes(serving.state) is None
    assert plain.sidecars() == ()
    assert isinstance(serving.state.settings, HttpSettings)


def test_the_meta_of_a_job_is_a_dict_or_empty(serving):
    for meta, found in (({"a": 1}, {"a": 1}), (None, {})):
        job_id = serving.enqueue(meta=meta)
        assert meta_of(serving.run(serving.engine.get(job_id))) == found


def test_a_job_whose_app_is_not_served_is_still_shown(serving):
    job_id = serving.enqueue()
    serving.state.apps = {}

    job = serving.client.get(f"/api/jobs/{job_id}").json()["job"]

    assert (job["id"], job["canRetry"]) == (job_id, False)
