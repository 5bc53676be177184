"""Alive and ready."""

from holdfast.jobs.ports import StoreUnavailable


def test_a_server_that_answers_is_alive_and_leaves_no_cookie(serving):
    answer = serving.client.get("/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert "set-cookie" not in answer.headers


def test_a_server_whose_store_answers_is_ready(serving):
    assert serving.client.get("/readyz").json() == {"status": "ok", "missing": []}


def test_what_is_missing_is_named(serve):
    serving = serve(ready=(lambda: "no worker runs", lambda: None))

    async def away():
        raise StoreUnavailable("away")

    serving.engine.store.ping = away
    answer = serving.client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["missing"] == ["no worker runs", "the database does not answer"]
