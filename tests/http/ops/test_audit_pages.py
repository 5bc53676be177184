"""The audit log on its page."""


def test_every_change_is_listed_with_its_operator(dashboard):
    assert "Nothing was changed yet." in dashboard.look("/audit").answer.text
    dashboard.post("/queues/pause", name="payments")
    dashboard.post("/downstreams/hold", name="smtp")
    dashboard.ask("/downstreams/reset", name="smtp")  # a question changes nothing
    dashboard.post("/outbox/requeue", id=dashboard.ids["failed message"])
    dashboard.post("/outbox/requeue", id=dashboard.ids["failed message"])  # refused

    page = dashboard.look("/audit")

    assert page.texts("//tbody/tr/th") == ["outbox.requeue", "downstreams.hold", "queues.pause"]
    assert page.texts("//td[@data-label='To what']") == [
        dashboard.ids["failed message"], "smtp", "payments",
    ]  # fmt: skip
    assert set(page.texts("//td[@data-label='Who']")) == {"one-time link"}
    assert dashboard.client.get("/ops/audit?cursor=odd").status_code == 422
