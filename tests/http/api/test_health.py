"""Health and readiness."""

import pytest

from holdfast.jobs.store_port import StoreUnavailable


def test_a_server_that_answers_is_alive_and_leaves_no_cookie(serving):
    answer = serving.client.get("/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert "set-cookie" not in answer.headers


def test_a_server_whose_store_answers_is_ready(serving):
    assert serving.client.get("/readyz").json() == {"status": "ok", "missing": []}


def test_the_missing_part_is_named(serve):
    serving = serve(ready=(lambda: "no worker runs", lambda: None))

    async def away():
        raise StoreUnavailable("away")

    serving.engine.store.ping = away
    answer = serving.client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["missing"] == ["no worker runs", "the database does not answer"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_probe_may_ask_for_the_head_alone(serving, path):
    whole, head = serving.client.get(path), serving.client.head(path)

    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == whole.headers["content-length"]
    assert head.headers["content-type"] == whole.headers["content-type"]
    assert serving.client.put(path).headers["allow"] == "GET, HEAD"
    assert "head" not in serving.client.get("/api/openapi.json").json()["paths"][path]
