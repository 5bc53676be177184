"""The names that `Downstream(key=)` makes: operators see them, other sessions do not."""

import pytest
from tests.http.live_server import Serving

from holdfast import App, Downstream, JobContext


@pytest.fixture
def serving(tmp_path):
    app = App("crawl")

    @app.job(downstream=Downstream("host", key=lambda name: name))
    async def fetch(ctx: JobContext, name: str) -> None: ...

    with Serving(tmp_path, served=app) as serving:
        for name in ("secret.example", "other.example"):
            serving.run(serving.engine.enqueue(fetch, name, owner="ann"))
        yield serving


def test_only_operators_see_them_in_the_list(serving):
    assert serving.client.get("/api/downstreams").json() == {"downstreams": []}
    seen = serving.admin().get("/api/downstreams").json()["downstreams"]
    assert {each["name"] for each in seen} == {"host:secret.example", "host:other.example"}


def test_the_live_stream_does_not_name_them(serving):
    with serving.stream() as (_, following):
        name, _, data = following()
    assert (name, data["downstreams"]) == ("downstreams", [])


def test_the_metrics_add_them_up_under_the_declared_name(serving):
    text = serving.client.get("/metrics").text

    assert "example" not in text
    lane = 'downstream="host",kind="crawl.fetch",queue="default"'
    assert f'holdfast_jobs{{{lane},status="ready"}} 2' in text
    assert 'holdfast_downstream_state{downstream="host",state="CLOSED"} 2' in text
