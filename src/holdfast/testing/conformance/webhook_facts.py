"""Facts about webhooks."""

from holdfast.jobs.webhook_port import NewWebhook, WebhookWait
from holdfast.testing.conformance.world import World, fact


def _webhook(webhook_id: str, **fields: object) -> NewWebhook:
    values = {"url": "https://a.example/x", "owner": None, "kinds": None, "events": ("failed",)}
    return NewWebhook(id=webhook_id, secret="whsec_x", **{**values, **fields})  # type: ignore[arg-type]  # noqa: S106 - of a test


@fact
async def a_webhook_is_read_back_as_it_was_added_from_every_handle(world: World) -> None:
    added = await world.store.add_webhook(
        _webhook("w1", owner="ann", kinds=("a.b", "“c”"), events=("complete", "failed")),
        now=world.now,
    )
    second = await world.open_second()
    assert await second.webhook("w1") == added
    assert (added.owner, added.kinds, added.events) == (
        "ann", ("a.b", "“c”"), ("complete", "failed"),
    )  # fmt: skip
    assert (added.created_at, added.secret) == (world.now, "whsec_x")
    assert await second.webhook("w2") is None


@fact
async def webhooks_are_listed_by_age_all_or_those_of_an_owner(world: World) -> None:
    first = await world.store.add_webhook(_webhook("w2"), now=world.now)
    mine = await world.store.add_webhook(_webhook("w1", owner="ann"), now=world.now + 1)
    assert await world.store.webhooks() == (first, mine)
    assert await world.store.newest_webhooks(2) == (mine, first)
    assert await world.store.newest_webhooks(1) == (mine,)
    assert await world.store.webhooks("ann") == (mine,)
    assert await world.store.webhooks("ben") == ()
    assert await world.store.remove_webhook("w2")
    assert not await world.store.remove_webhook("w2")
    assert await world.store.webhooks() == (mine,)


@fact
async def the_first_webhook_begins_at_its_own_time_and_the_cursor_never_goes_back(
    world: World,
) -> None:
    assert await world.store.webhook_cursor() == 0
    await world.add("j1")
    first = await world.store.add_webhook(_webhook("w1"), now=world.now)
    assert first.since == await world.store.last_sequence() > 0
    assert await world.store.webhook_cursor() == first.since
    await world.store.move_webhook_cursor(first.since + 5)
    await world.store.move_webhook_cursor(first.since + 3)
    await world.store.add_webhook(_webhook("w2"), now=world.now)
    assert await world.store.webhook_cursor() == first.since + 5


@fact
async def how_long_deliveries_were_waited_for_is_kept_until_the_wait_ends(world: World) -> None:
    store, second = world.store, await world.open_second()
    await store.add_webhook(_webhook("w1"), now=world.now)
    reached = await store.webhook_cursor()
    waits = {
        "one": WebhookWait(reached + 1, 10.5),
        "another": WebhookWait(reached + 2, 3.0),
        "gone": WebhookWait(reached, 5.0),
    }
    for leadership, wait in waits.items():
        await store.note_webhook_wait(leadership, WebhookWait(0, 0.0))
        await store.note_webhook_wait(leadership, wait)
    for leadership, wait in waits.items():
        assert await second.webhook_wait(leadership) == wait
    await second.note_webhook_wait("one", None)
    assert await store.webhook_wait("one") is None
    assert await store.webhook_wait("another") == waits["another"]
    assert await store.webhook_wait("gone") is None, "its deliveries are enqueued"
