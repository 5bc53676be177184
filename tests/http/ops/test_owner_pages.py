"""The page of owners: what they use, and their limits."""

import pytest
from tests.http.ops.busy_shop import Order

from holdfast import OwnerLimits, RateLimit

FACTS = "//dl[@class='facts']//dd"


async def much(_engine, _owner):
    for _ in range(30):
        yield 1


def test_an_owner_is_limited_shown_listed_and_cleared(dashboard):
    owners, name = dashboard.engine.owners, "office/ann & bob"
    dashboard.run(dashboard.engine.enqueue("shop.mail", Order(), owner=name))
    back = dashboard.post(
        "/owners/limit", name=name, concurrency="2", per_minute=" 30 ", storage_bytes="1000000"
    )
    assert back == "/owners?owner=office%2Fann+%26+bob&note=limits-set"
    kept = OwnerLimits(concurrency=2, rate=RateLimit(per_minute=30), storage_bytes=10**6)
    assert dashboard.run(owners.limits(name)) == kept

    page = dashboard.look(back)
    assert page.texts(FACTS) == [
        "0 of 2",
        "1, no limit",
        "0 of 1,000,000",
        "Its own",
    ]
    assert page.texts("//*[@id='rows']//a") == [name]
    assert page.one("//input[@name='per_minute']").get("value") == "30"
    assert page.one("//input[@name='waiting']").get("value") == ""

    assert dashboard.post("/owners/clear", name=name).endswith("note=limits-cleared")
    assert dashboard.run(owners.list()) == ()
    assert "Those of every owner" in dashboard.look(f"/owners?owner={name}").texts(
        "//dl[@class='facts']//dd"
    )
    entries = dashboard.run(dashboard.engine.audit.list()).entries
    assert [entry.action for entry in entries] == ["owner-limits.delete", "owner-limits.set"]
    assert {entry.target for entry in entries} == {name}
    minute = {"perSecond": None, "perMinute": 30, "perDay": None, "spread": False}
    assert entries[0].detail == {}
    assert entries[1].detail == {
        "concurrency": 2, "rate": minute, "waiting": None, "storageBytes": 10**6,
    }  # fmt: skip


def test_a_rate_that_is_spread_stays_so(dashboard):
    owners = dashboard.engine.owners
    rate = RateLimit(per_minute=30, spread=True)
    dashboard.run(owners.set_limits("ann", OwnerLimits(rate=rate)))
    dashboard.post("/owners/limit", name="ann", per_minute="20")
    expected = OwnerLimits(rate=RateLimit(per_minute=20, spread=True))
    assert dashboard.run(owners.limits("ann")) == expected
    dashboard.post("/owners/limit", name="ann")
    assert dashboard.run(owners.limits("ann")) == OwnerLimits()


def test_counts_that_ended_at_their_bounds_are_shown_as_such(dashboard, monkeypatch):
    monkeypatch.setattr("holdfast.jobs.client.owner_control.MOST_COUNTED", 1)
    (app, *_) = dashboard.engine.registry.apps
    monkeypatch.setattr(app, "stored_bytes", much)
    dashboard.run(dashboard.engine.enqueue("shop.mail", Order(), owner="ann"))
    facts = dashboard.look("/owners?owner=ann").texts(FACTS)
    assert facts[1:3] == ["1+, no limit", "at least 20, no limit"]


@pytest.mark.parametrize("text", ["0", "-1", "five", "1.5", "9" * 20])
def test_what_cannot_be_a_limit_is_refused(shown, text):
    for field in ("concurrency", "per_day"):
        answer = shown.client.post("/ops/owners/limit", data={"name": "ann", field: text})
        assert answer.status_code == 422
    assert shown.run(shown.engine.owners.list()) == ()


def test_more_owners_than_fit_on_a_page_go_on_by_name(dashboard):
    for number in range(101):
        limits = OwnerLimits(waiting=number + 1)
        dashboard.run(dashboard.engine.owners.set_limits(f"o{number:03d}", limits))
    page = dashboard.look("/owners")
    assert len(page.all("//*[@id='rows']//a")) == 100
    assert dashboard.look("/owners?after=o099").texts("//*[@id='rows']//a") == ["o100"]
    assert page.one("//a[.='More']").get("href") == "/ops/owners?after=o099"
