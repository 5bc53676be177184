"""Webhooks over the API: owners have their own, operators see all."""

import pytest
from tests.http.live_server import READER, demo_app

from holdfast.fetch import FETCH_ERRORS, Fetcher
from holdfast.testing.downstream import ScriptedDownstream, ok
from holdfast.webhooks import webhooks_app

URL = "https://example.org/hooks"


@pytest.fixture
def delivering(serve):
    """A server whose engine delivers webhooks, also to this machine."""
    return with_key(serve(served=demo_app(), others=[delivering_app()]))


def delivering_app():
    return webhooks_app(Fetcher(allow_private=True), errors=FETCH_ERRORS)


@pytest.fixture
def serving(delivering):
    return delivering


def new_key(serving, owner):
    keys = serving.engine.keys
    return serving.run(keys.create(owner=owner, organisation="acme", name="laptop"))


def with_key(serving):
    """Let the server's client have Ann's API key."""
    serving.client.headers["x-api-key"] = new_key(serving, "ann").secret
    return serving


def add(client, **fields):
    return client.post("/api/webhooks", json={"url": URL, **fields})


def code_of(answer):
    return answer.status_code, answer.json()["error"]["code"]


def test_an_owner_adds_lists_and_removes_a_webhook_whose_secret_is_shown_once(serving):
    added = add(serving.client, kinds=["demo.grind"], events=["failed"])

    assert added.status_code == 201
    webhook = added.json()["webhook"]
    assert added.json()["secret"].startswith("whsec_")
    assert (webhook["url"], webhook["kinds"], webhook["events"]) == (
        URL, ["demo.grind"], ["failed"],
    )  # fmt: skip
    assert webhook["owner"].endswith("ann")
    listed = serving.client.get("/api/webhooks")
    assert listed.json() == {"webhooks": [webhook]}
    assert added.json()["secret"] not in listed.text

    assert serving.client.delete(f"/api/webhooks/{webhook['id']}").status_code == 204
    assert serving.client.get("/api/webhooks").json() == {"webhooks": []}


def test_a_webhook_of_another_looks_as_if_it_did_not_exist(serving):
    webhook_id = add(serving.client).json()["webhook"]["id"]
    stranger = serving.browser(**{"x-api-key": new_key(serving, "ben").secret})

    assert stranger.get("/api/webhooks").json() == {"webhooks": []}
    for name in (webhook_id, "none", "x" * 50, "a%00b"):
        for method, path in (("DELETE", ""), ("POST", "/test"), ("GET", "/deliveries")):
            answer = stranger.request(method, f"/api/webhooks/{name}{path}")
            assert code_of(answer) == (403, "FORBIDDEN")


def test_a_session_without_a_key_lets_no_address_be_called(serving):
    browser = serving.browser()
    refused = add(browser)
    assert code_of(refused) == (403, "FORBIDDEN")
    assert refused.json()["error"]["message"].startswith("Webhooks are added and tested with an")

    # One that such a session has from before.
    own = serving.run(serving.engine.webhooks.add(URL, owner=serving.owner(browser)))
    assert code_of(browser.post(f"/api/webhooks/{own.id}/test")) == (403, "FORBIDDEN")
    assert [each["id"] for each in browser.get("/api/webhooks").json()["webhooks"]] == [own.id]
    assert browser.delete(f"/api/webhooks/{own.id}").status_code == 204


def test_operators_see_all_and_may_add_one_for_all_owners(serving):
    mine = add(serving.client).json()["webhook"]
    assert code_of(add(serving.client, allOwners=True)) == (403, "FORBIDDEN")
    admin = serving.admin()

    of_all = add(admin, allOwners=True).json()["webhook"]

    assert of_all["owner"] is None
    assert admin.get("/api/webhooks").json() == {"webhooks": [mine, of_all]}
    assert admin.delete(f"/api/webhooks/{mine['id']}").status_code == 204
    entries = admin.get("/api/audit").json()["entries"]
    assert [(entry["action"], entry["target"]) for entry in reversed(entries)] == [
        ("webhooks.add", of_all["id"]),
        ("webhooks.remove", mine["id"]),
    ]


def test_readers_see_all_and_change_none(serve):
    serving = with_key(serve(reader_token=READER, others=[delivering_app()]))
    mine = add(serving.client).json()["webhook"]
    reader = serving.reader()

    assert reader.get("/api/webhooks").json() == {"webhooks": [mine]}
    assert code_of(add(reader, allOwners=True)) == (403, "FORBIDDEN")
    assert code_of(reader.delete(f"/api/webhooks/{mine['id']}")) == (403, "FORBIDDEN")
    assert code_of(reader.post(f"/api/webhooks/{mine['id']}/test")) == (403, "FORBIDDEN")


@pytest.mark.parametrize(
    "fields", [{"url": "nowhere"}, {"events": ["x"]}, {"secret": "x"}, {"kinds": []}]
)
def test_what_cannot_be_used_is_refused_with_a_line(serving, fields):
    assert code_of(add(serving.client, **fields)) == (422, "VALIDATION_ERROR")


def test_an_owner_has_at_most_20(serving):
    for _ in range(20):
        assert add(serving.client).status_code == 201

    assert code_of(add(serving.client)) == (409, "INVALID_STATE")


def test_a_test_message_is_delivered_and_stands_in_the_log(delivering):
    with ScriptedDownstream() as receiver:
        receiver.script(ok(b""))
        webhook_id = add(delivering.client, url=receiver.url).json()["webhook"]["id"]

        tested = delivering.client.post(f"/api/webhooks/{webhook_id}/test")
        assert tested.status_code == 202
        delivering.work()

        (delivery,) = delivering.client.get(f"/api/webhooks/{webhook_id}/deliveries").json()[
            "deliveries"
        ]
    assert delivery["id"] == tested.json()["deliveryId"]
    assert (delivery["event"], delivery["status"], delivery["httpStatus"]) == (
        "test", "complete", 200,
    )  # fmt: skip
    assert (delivery["jobId"], delivery["error"], delivery["attempts"]) == (None, None, 1)
    assert delivering.client.get("/api/jobs").json()["jobs"] == []


def test_a_server_without_the_app_says_that_it_does_not_deliver(serve):
    serving = with_key(serve())
    owner = new_key(serving, "ann").key.job_owner
    webhook = serving.run(serving.engine.webhooks.add(URL, owner=owner))

    for answer in (
        add(serving.client),
        serving.client.post(f"/api/webhooks/{webhook.id}/test"),
    ):
        assert code_of(answer) == (409, "INVALID_STATE")
        assert "not delivered here" in answer.json()["error"]["message"]
    assert [each["id"] for each in serving.client.get("/api/webhooks").json()["webhooks"]] == [
        webhook.id
    ]
