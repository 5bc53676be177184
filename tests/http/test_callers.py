"""Who sends a request: an API key, the session, or the server's own machine."""

import pytest
from fastapi import APIRouter, Request
from tests.http.live_server import Order, demo_app, next_message

from holdfast.http import Caller, ServedApp
from holdfast.http.callers import is_local
from holdfast.jobs.store_port import StoreUnavailable

ANN = {"owner": "ann", "organisation": "acme", "name": "laptop"}
INVALID = (401, "UNAUTHENTICATED")
PROXIES_ADD = (
    "forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip",
    "cf-connecting-ip",
)  # fmt: skip


class AskingApp(ServedApp):
    """An app with a route that says who asks."""

    def routes(self, state):
        router = APIRouter()

        @router.get("/api/who")
        @router.post("/api/who")
        async def who(caller: Caller) -> dict[str, str]:
            return {"owner": caller.owner, "organisation": caller.organisation}

        return router


@pytest.fixture
def serving(serve):
    return serve(served=AskingApp(demo_app()))


@pytest.fixture
def key(serving):
    """A valid key of Ann's at Acme."""
    return serving.run(serving.engine.keys.create(**ANN))


def bearer(secret):
    return {"authorization": f"Bearer {secret}"}


def error_of(answer):
    return answer.status_code, answer.json()["error"]["code"]


def organisation(client, **headers):
    return client.get("/api/who", headers=headers).json()["organisation"]


@pytest.mark.parametrize("form", [bearer, lambda secret: {"x-api-key": secret}])
def test_a_key_stands_for_its_owner_and_organisation_and_gets_no_cookie(serving, key, form):
    answer = serving.client.get("/api/who", headers=form(key.secret))

    assert answer.json() == {"owner": key.key.job_owner, "organisation": "acme"}
    assert "set-cookie" not in answer.headers


def test_a_key_comes_before_the_session_of_the_same_request(serving, key):
    own = serving.owner()

    with_key = serving.client.get("/api/who", headers=bearer(key.secret)).json()
    assert with_key["owner"] == key.key.job_owner
    assert serving.client.get("/api/who").json()["owner"] == own


def test_the_common_routes_take_the_keys_owner_too(serving, key):
    job = serving.enqueue(owner=key.key.job_owner)
    client = serving.browser(**bearer(key.secret))

    assert [each["id"] for each in client.get("/api/jobs").json()["jobs"]] == [job]
    assert client.post(f"/api/jobs/{job}/cancel").json()["job"]["status"] == "cancelled"
    assert error_of(serving.client.get(f"/api/jobs/{job}")) == (403, "FORBIDDEN")


@pytest.fixture
def rivals(serving):
    """Clients with keys of two organisations, whose owners have the same name."""
    keys = [
        serving.run(serving.engine.keys.create(owner="ci", organisation=name, name="ci"))
        for name in ("acme", "rival")
    ]
    return [serving.browser(**bearer(each.secret)) for each in keys]


def owner(client):
    return client.get("/api/who").json()["owner"]


def test_owners_of_the_same_name_in_two_organisations_do_not_share_jobs(serving, rivals):
    acme, rival = rivals
    queued = serving.enqueue(owner=owner(acme))
    failed = serving.enqueue(Order(fails="GW_4XX"), owner=owner(acme))

    assert rival.get("/api/jobs").json()["jobs"] == []
    assert error_of(rival.get(f"/api/jobs/{queued}")) == (403, "FORBIDDEN")
    assert error_of(rival.post(f"/api/jobs/{queued}/cancel")) == (403, "FORBIDDEN")
    serving.work()
    assert error_of(rival.post(f"/api/jobs/{failed}/retry")) == (403, "FORBIDDEN")
    jobs = acme.get("/api/jobs").json()["jobs"]
    assert {each["id"]: each["status"] for each in jobs} == {queued: "complete", failed: "failed"}
    assert acme.post(f"/api/jobs/{failed}/retry").json()["job"]["status"] == "queued"


def test_owners_of_the_same_name_in_two_organisations_do_not_share_events(serving, rivals):
    acme, rival = rivals
    with rival.stream("GET", "/api/events") as answer:
        lines = answer.iter_lines()
        next_message(lines)
        serving.enqueue(owner=owner(acme))
        own = serving.enqueue(owner=owner(rival))

        assert next_message(lines)[2]["jobId"] == own


def test_a_key_whose_owner_is_called_like_a_session_does_not_see_its_jobs(serving):
    serving.enqueue()
    names = {**ANN, "owner": serving.owner()}
    key = serving.run(serving.engine.keys.create(**names))

    assert serving.browser(**bearer(key.secret)).get("/api/jobs").json()["jobs"] == []


@pytest.mark.parametrize("path", ["/api/who", "/api/jobs", "/", "/healthz"])
@pytest.mark.parametrize(
    "headers",
    [
        bearer("hf_wrong"),
        bearer("hf_" + "x" * 43),
        bearer("hf_" + "x" * 5000),
        {"authorization": "bearer  hf_"},
        bearer("a_token_of_another_service"),
        {"authorization": "Bearer"},
        {"x-api-key": "anything"},
        {"x-api-key": ""},
    ],
)
def test_a_wrong_key_is_refused_whatever_is_asked_for(serving, path, headers):
    answer = serving.client.get(path, headers=headers)

    assert error_of(answer) == INVALID
    assert answer.json()["error"]["message"] == "This API key is not valid."
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in answer.headers


def test_a_revoked_key_is_refused_at_once(serving, key):
    client = serving.browser(**bearer(key.secret))
    assert client.get("/api/who").status_code == 200

    serving.run(serving.engine.keys.revoke(key.key.id))

    assert error_of(client.get("/api/who")) == INVALID


def test_a_refused_key_in_a_browser_is_a_page(serving):
    answer = serving.client.get("/", headers={**bearer("hf_wrong"), "accept": "text/html"})

    assert answer.status_code == 401
    assert "This API key is not valid." in answer.text


def test_the_admin_token_is_no_key_even_if_it_looks_like_one(serve):
    serving = serve(admin_token="hf_of_an_operator")

    operator = serving.browser(**bearer("hf_of_an_operator"))

    assert operator.get("/api/dead-letters").status_code == 200
    assert operator.get("/api/jobs").status_code == 200


def test_a_write_with_a_key_may_come_from_anywhere_and_one_without_may_not(serving, key):
    foreign = {"origin": "http://evil", "sec-fetch-site": "cross-site"}

    with_key = serving.client.post("/api/who", headers={**foreign, **bearer(key.secret)})
    with_wrong_key = serving.client.post("/api/who", headers={**foreign, **bearer("hf_no")})

    assert with_key.status_code == 200
    assert error_of(with_wrong_key) == INVALID
    assert error_of(serving.client.post("/api/who", headers=foreign)) == (403, "FORBIDDEN")


def test_another_site_gets_no_permission_to_send_a_key(serving):
    asked = {
        "origin": "http://evil",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization",
    }
    answer = serving.client.options("/api/who", headers=asked)

    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_writes_with_a_key_have_an_allowance_of_their_own(serve):
    serving = serve(served=AskingApp(demo_app()), writes_at_once=2, writes_per_second=0.01)
    key = serving.run(serving.engine.keys.create(**ANN))
    client = serving.browser(**bearer(key.secret))

    assert [client.post("/api/who").status_code for _ in range(3)] == [200, 200, 429]


def test_a_key_cannot_be_checked_without_the_database(serving, key, monkeypatch):
    async def unreachable(_):
        raise StoreUnavailable("gone")

    monkeypatch.setattr(serving.engine.store, "find_key", unreachable)
    answer = serving.client.get("/api/who", headers=bearer(key.secret))

    assert error_of(answer) == (503, "IO_ERROR")


def test_requests_from_the_same_machine_belong_to_one_organisation(serving):
    assert organisation(serving.client) == organisation(serving.browser()) == "local"
    assert serving.client.get("/api/who").json()["owner"] == serving.owner()


def test_without_local_access_requests_from_the_same_machine_belong_to_their_sessions(serve):
    serving = serve(served=AskingApp(demo_app()), local_access=False)

    owner = serving.owner()

    assert organisation(serving.client) == f"session:{owner}"


@pytest.mark.parametrize("header", PROXIES_ADD)
def test_a_request_through_a_proxy_belongs_to_its_session(serving, header):
    owner = serving.owner()

    assert organisation(serving.client, **{header: "127.0.0.1"}) == f"session:{owner}"


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "10.0.0.1", "[::1", ""])
def test_a_request_for_another_host_belongs_to_its_session(serving, host):
    owner = serving.owner()

    assert organisation(serving.client, host=host) == f"session:{owner}"


@pytest.mark.parametrize(
    "client, host, local",
    [
        ("127.0.0.1", "localhost:8000", True),
        ("127.9.9.9", "127.0.0.1", True),
        ("::1", "[::1]:8000", True),
        ("192.168.1.2", "localhost:8000", False),
        ("testclient", "localhost", False),
        (None, "localhost", False),
    ],
)
def test_the_peer_and_the_host_are_both_of_this_machine(client, host, local):
    scope = {
        "type": "http",
        "headers": [(b"host", host.encode())],
        "client": None if client is None else (client, 50000),
    }
    assert is_local(Request(scope)) is local
