"""Operators look at limits of owners and what they use, and change limits."""

import pytest
from tests.http.live_server import READER

from holdfast import OwnerLimits, RateLimit

PATH = "/api/ops/owner-limits"
NONE = {"concurrency": None, "rate": None, "waiting": None, "storageBytes": None}
RATE = {"perSecond": None, "perMinute": 30, "perDay": None, "spread": False}


def code_of(answer):
    return answer.status_code, answer.json()["error"]["code"]


def test_limits_are_set_shown_listed_and_cleared(serving):
    serving.enqueue()
    owner, admin = serving.owner(), serving.admin()
    asked = {"concurrency": 2, "rate": {"perMinute": 30}, "storageBytes": 10**12}
    kept = {**NONE, **asked, "rate": RATE}

    shown = admin.put(f"{PATH}/{owner}", json=asked).json()["owner"]

    assert shown == {
        "owner": owner, "limits": kept, "own": True, "running": 0, "unfinished": 1,
        "moreUnfinished": False, "storedBytes": 0, "storedComplete": True, "stored": {},
    }  # fmt: skip
    assert serving.run(serving.engine.owners.limits(owner)) == OwnerLimits(
        concurrency=2, rate=RateLimit(per_minute=30), storage_bytes=10**12
    )
    assert admin.get(f"{PATH}/{owner}").json()["owner"] == shown
    assert admin.get(PATH).json() == {
        "owners": [{"owner": owner, "limits": kept}],
        "default": NONE,
    }
    assert admin.get(PATH, params={"after": owner}).json()["owners"] == []
    cleared = admin.delete(f"{PATH}/{owner}").json()["owner"]
    assert (cleared["own"], cleared["limits"]) == (False, NONE)
    last, first = admin.get("/api/audit").json()["entries"]
    assert (first["action"], first["target"], first["detail"]) == ("owner-limits.set", owner, kept)
    assert (last["action"], last["target"]) == ("owner-limits.delete", owner)


def test_an_owner_with_slashes_and_colons_is_understood(serving):
    name = "key:4:acme:office/ann"
    answer = serving.admin().put(f"{PATH}/{name}", json={"waiting": 5})
    assert answer.json()["owner"]["owner"] == name


@pytest.mark.parametrize(
    "asked",
    [
        {"concurrency": 0},
        {"concurrency": -1},
        {"concurrency": "5"},
        {"concurrency": 1.5},
        {"waiting": True},
        {"storageBytes": 2**60},
        {"rate": {}},
        {"rate": {"perMinute": 0}},
        {"rate": 5},
        {"colour": 1},
    ],
)
def test_what_cannot_be_a_limit_is_refused(serving, asked):
    answer = serving.admin().put(f"{PATH}/ann", json=asked)
    assert code_of(answer) == (422, "VALIDATION_ERROR")
    assert serving.run(serving.engine.owners.list()) == ()


@pytest.mark.parametrize("owner", ["x" * 1001, "a%00b"])
def test_what_no_owner_is_called_is_refused(serving, owner):
    for answer in (
        serving.admin().get(f"{PATH}/{owner}"),
        serving.admin().put(f"{PATH}/{owner}", json={}),
        serving.admin().delete(f"{PATH}/{owner}"),
    ):
        assert code_of(answer) == (422, "VALIDATION_ERROR")


def test_a_reader_looks_and_changes_nothing_and_others_do_not_even_look(serve):
    serving = serve(reader_token=READER)
    reader = serving.reader()
    assert reader.get(PATH).status_code == 200
    assert reader.get(f"{PATH}/ann").status_code == 200
    assert code_of(reader.put(f"{PATH}/ann", json={"waiting": 1})) == (403, "FORBIDDEN")
    assert code_of(reader.delete(f"{PATH}/ann")) == (403, "FORBIDDEN")
    assert code_of(serving.client.get(PATH)) == (403, "FORBIDDEN")
    assert code_of(serving.client.get(f"{PATH}/ann")) == (403, "FORBIDDEN")
