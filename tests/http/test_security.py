"""Checks that apply to every request."""

import pytest
from fastapi import APIRouter
from starlette.datastructures import Headers
from tests.http.live_server import demo_app

from holdfast.http import Owner, ServedApp
from holdfast.http.security import is_from_here


@pytest.mark.parametrize("path", ["/api/jobs", "/healthz", "/nothing", "/api/jobs/x"])
def test_every_answer_carries_the_headers(serving, path):
    headers = serving.client.get(path).headers

    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"
    policy = headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


class ThingsApp(ServedApp):
    """An app with routes that do not say how long an answer may be kept."""

    def routes(self, state):
        router = APIRouter()

        @router.get("/api/things")
        @router.get("/v3/things")
        async def things(owner: Owner) -> str:
            return f"what only {owner} may see"

        return router


@pytest.mark.parametrize("path", ["/api/things", "/v3/things", "/healthz", "/v3/nothing"])
def test_no_cache_keeps_an_answer_that_does_not_allow_it(serve, path):
    serving = serve(served=ThingsApp(demo_app()))

    assert serving.client.get(path).headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "sent, allowed",
    [
        ({}, True),
        ({"origin": "http://here:8000"}, True),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site"}, False),
        ({"origin": "http://evil"}, False),
        ({"origin": "null"}, False),
        ({"origin": "http://here:9000"}, False),
        ({"origin": "http://[broken"}, False),
        ({"origin": "http://evil", "sec-fetch-site": "same-origin"}, False),
    ],
)
def test_writes_come_from_our_own_pages_or_from_no_page(sent, allowed):
    assert is_from_here(Headers({"host": "here:8000", **sent})) is allowed


def test_a_write_from_another_site_changes_nothing(serving):
    job_id = serving.enqueue()

    answer = serving.client.post(f"/api/jobs/{job_id}/cancel", headers={"origin": "http://evil"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")
    assert serving.client.get(f"/api/jobs/{job_id}").json()["job"]["status"] == "queued"


def test_too_many_writes_get_a_retry_after(serve):
    serving = serve(writes_at_once=3, writes_per_second=0.5)
    serving.owner()
    answers = [serving.client.post("/api/jobs/x/cancel") for _ in range(5)]

    assert [answer.status_code for answer in answers] == [403, 403, 403, 429, 429]
    assert answers[-1].json()["error"]["code"] == "RATE_LIMITED"
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 2
    other = serving.browser()
    serving.owner(other)
    assert other.post("/api/jobs/x/cancel").status_code == 403
    assert serving.client.get("/api/jobs").status_code == 200


def test_new_sessions_for_each_write_share_what_their_address_is_allowed(serve):
    serving = serve(writes_at_once=2, writes_per_second=0.01, sessions_per_address=2)

    def write(client):
        serving.owner(client)
        return client.post("/api/jobs/x/cancel").status_code

    assert [write(serving.browser()) for _ in range(6)] == [403] * 4 + [429] * 2
    elsewhere = serving.browser(**{"x-forwarded-for": "192.0.2.7"})
    assert write(elsewhere) == 403
    created = serving.run(serving.engine.keys.create(owner="a", organisation="b", name="c"))
    with_key = serving.browser(**{"x-api-key": created.secret})
    assert with_key.post("/api/jobs/x/cancel").status_code == 403


def test_strangers_without_cookies_share_the_allowance_of_their_address(serve):
    serving = serve(writes_at_once=2, writes_per_second=0.01)
    answers = [serving.browser().post("/api/jobs/x/cancel") for _ in range(3)]

    assert [answer.status_code for answer in answers] == [403, 403, 429]
