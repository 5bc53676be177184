"""Webhooks: signed messages about the ends of jobs, delivered by durable jobs."""

import asyncio
import json
from contextlib import asynccontextmanager, suppress

import pytest
from standardwebhooks.webhooks import Webhook as Receiver
from tests.support.waiting import until

from holdfast import (
    App,
    Engine,
    Exponential,
    JobContext,
    JobStatus,
    Permanent,
    Retention,
    RetryPolicy,
    UnknownKind,
    UnknownWebhook,
    WorkerOptions,
)
from holdfast.fetch import FETCH_ERRORS, Fetcher
from holdfast.jobs.maintenance.intervals import MaintenanceOptions
from holdfast.jobs.maintenance.retention import RetentionService
from holdfast.jobs.maintenance.webhooks import WebhookDispatch
from holdfast.jobs.webhook_port import ENDS, NewWebhook
from holdfast.testing import VirtualClock
from holdfast.testing.downstream import ScriptedDownstream, close_early, ok, status, trickle
from holdfast.webhooks import webhooks_app

QUICK = RetryPolicy(max_attempts=3, backoff=Exponential(base=0.01, cap=0.01, jitter=0))
OFTEN = WorkerOptions(poll_interval=0.02, maintenance=MaintenanceOptions(webhooks_every=0.02))
ACCEPTED = ok(b"")

shop = App("shop")


@shop.job(retry=RetryPolicy(max_attempts=1))
async def sell(_ctx: JobContext, item: str) -> str:
    if item == "nothing":
        raise Permanent("SOLD_OUT", "There is none left.")
    return item


@shop.job()
async def count(_ctx: JobContext) -> int:
    return 1


@shop.job(retention=Retention(complete_newest=0))
async def fleeting(_ctx: JobContext) -> None: ...


@pytest.fixture
def receiver():
    with ScriptedDownstream() as server:
        server.script(ACCEPTED)
        yield server


@asynccontextmanager
async def working(tmp_path, *, url=None, allow_private=True, works=True):
    """An engine with a worker that follows and delivers."""
    delivering = webhooks_app(
        Fetcher(allow_private=allow_private), errors=FETCH_ERRORS, retry=QUICK
    )
    engine = Engine(url or f"sqlite:///{tmp_path / 'work.db'}", apps=[shop, delivering])
    async with engine:
        work = asyncio.create_task(engine.work(options=OFTEN)) if works else None
        try:
            yield engine
        finally:
            if work is not None:
                work.cancel()
                with suppress(asyncio.CancelledError):
                    await work


def delivered(engine, webhook, *statuses):
    async def all_ended():
        found = await engine.webhooks.deliveries(webhook.id)
        ended = [each for each in found if each.status.finished]
        return found if found and len(ended) == len(found) >= (len(statuses) or 1) else None

    return until(all_ended)


def kind_of(engine):
    return (engine.kinds["holdfast-webhooks.deliver"],)


# -- what is sent ----------------------------------------------------------------------------------


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_the_end_of_a_job_is_told_signed_as_standard_webhooks(store, tmp_path, receiver, request):
    url = request.getfixturevalue("postgres_url") if store == "postgres" else None

    async def main():
        async with working(tmp_path, url=url) as engine:
            webhook = await engine.webhooks.add(f"{receiver.url}/hooks?a=1")
            job = await engine.enqueue(sell, "tea")
            (delivery,) = await delivered(engine, webhook)
            return webhook, job, delivery

    webhook, job, delivery = asyncio.run(main())
    (told,) = receiver.requests
    assert (told.method, told.path, told.query) == ("POST", "/hooks", "a=1")
    assert told.headers["content-type"] == "application/json"
    message = Receiver(webhook.secret).verify(told.body, dict(told.headers))
    assert told.headers["webhook-id"] == delivery.id
    assert message["type"] == "job.complete"
    assert message["data"]["job"] == {
        "id": job.id, "kind": "shop.sell", "status": "complete", "attemptCount": 1, "error": None,
    }  # fmt: skip
    assert message["timestamp"].endswith("Z")
    assert (delivery.event, delivery.job_id) == ("job.complete", job.id)
    assert (delivery.status, delivery.http_status) == (JobStatus.COMPLETE, 200)
    assert (delivery.attempts, delivery.error) == (1, None)
    assert delivery.finished_at >= delivery.created_at


def test_a_failure_is_told_with_its_code(tmp_path, receiver):
    async def main():
        async with working(tmp_path) as engine:
            webhook = await engine.webhooks.add(receiver.url)
            await engine.enqueue(sell, "nothing")
            await delivered(engine, webhook)

    asyncio.run(main())
    message = json.loads(receiver.requests[0].body)
    assert message["type"] == "job.failed"
    assert message["data"]["job"]["error"] == {"code": "SOLD_OUT"}


def test_a_webhook_is_told_only_of_the_owner_kinds_and_events_that_it_asked_for(tmp_path, receiver):
    async def main():
        async with working(tmp_path) as engine:
            narrow = await engine.webhooks.add(
                receiver.url, owner="ann", kinds=["shop.sell"], events=["complete"]
            )
            wide = await engine.webhooks.add(receiver.url)
            mine = await engine.enqueue(sell, "tea", owner="ann")
            await engine.enqueue(sell, "tea", owner="ben")
            await engine.enqueue(sell, "nothing", owner="ann")
            await engine.enqueue(count, owner="ann")
            all_of_them = await delivered(engine, wide, *range(4))
            return mine, await engine.webhooks.deliveries(narrow.id), all_of_them

    mine, of_narrow, of_wide = asyncio.run(main())
    assert [each.job_id for each in of_narrow] == [mine.id]
    assert len(of_wide) == 4


def test_what_ended_before_a_webhook_was_added_is_not_told(tmp_path, receiver):
    async def main():
        async with working(tmp_path) as engine:
            await engine.wait(await engine.enqueue(sell, "before"))
            webhook = await engine.webhooks.add(receiver.url)
            after = await engine.enqueue(sell, "after")
            return after, await delivered(engine, webhook)

    after, deliveries = asyncio.run(main())
    assert [each.job_id for each in deliveries] == [after.id]


def test_a_test_message_is_sent_on_request(tmp_path, receiver):
    async def main():
        async with working(tmp_path) as engine:
            webhook = await engine.webhooks.add(receiver.url)
            delivery_id = await engine.webhooks.test(webhook.id)
            (delivery,) = await delivered(engine, webhook)
            return delivery_id, delivery

    delivery_id, delivery = asyncio.run(main())
    assert (delivery.id, delivery.event, delivery.job_id) == (delivery_id, "test", None)
    assert json.loads(receiver.requests[0].body)["type"] == "test"


# -- when it fails ---------------------------------------------------------------------------------


def test_a_message_is_tried_again_with_the_same_id_until_it_is_accepted(tmp_path, receiver):
    receiver.script(status(500), status(404), ACCEPTED)

    async def main():
        async with working(tmp_path) as engine:
            webhook = await engine.webhooks.add(receiver.url)
            await engine.enqueue(sell, "tea")
            return webhook, await delivered(engine, webhook)

    webhook, (delivery,) = asyncio.run(main())
    assert (delivery.status, delivery.attempts) == (JobStatus.COMPLETE, 3)
    ids = [request.headers["webhook-id"] for request in receiver.requests]
    assert ids == [delivery.id] * 3
    for request in receiver.requests:
        Receiver(webhook.secret).verify(request.body, dict(request.headers))


@pytest.mark.parametrize(
    "answer, attempts, code",
    [
        (302, 3, "WEBHOOK_NOT_ACCEPTED"),
        (304, 3, "FETCH_BAD_ANSWER"),
        (404, 3, "WEBHOOK_NOT_ACCEPTED"),
        (410, 1, "FETCH_4XX"),
        (503, 3, "FETCH_5XX"),
    ],
)
def test_what_is_never_accepted_is_in_the_log_and_no_dead_letter(
    tmp_path, receiver, answer, attempts, code
):
    receiver.script(status(answer))

    async def main():
        async with working(tmp_path) as engine:
            webhook = await engine.webhooks.add(receiver.url)
            await engine.enqueue(sell, "tea")
            (delivery,) = await delivered(engine, webhook)
            return delivery, (await engine.dead_letters.list())[0]

    delivery, letters = asyncio.run(main())
    assert (delivery.status, delivery.attempts) == (JobStatus.FAILED, attempts)
    assert delivery.error.code == code
    assert delivery.http_status is None
    assert letters == ()


@pytest.mark.parametrize("answer", [429, 503])
def test_a_receiver_that_asks_to_wait_is_given_the_time(tmp_path, receiver, answer):
    receiver.script(status(answer, retry_after=3600), ACCEPTED)

    async def main():
        async with working(tmp_path) as engine:
            webhook = await engine.webhooks.add(receiver.url)
            delivery_id = await engine.webhooks.test(webhook.id)

            async def tried():
                job = await engine.get(delivery_id)
                return job if job.status is JobStatus.QUEUED and job.attempt_count else None

            return await until(tried)

    job = asyncio.run(main())
    assert job.ready_at >= job.created_at + 3600


@pytest.mark.parametrize("body", [trickle(b"x" * 1000, every=1), close_early(b"x")])
def test_an_accepted_message_is_not_sent_again_whatever_becomes_of_the_body(
    tmp_path, receiver, body
):
    receiver.script(body)

    async def main():
        async with working(tmp_path) as engine:
            webhook = await engine.webhooks.add(receiver.url)
            await engine.webhooks.test(webhook.id)
            return await delivered(engine, webhook)

    (delivery,) = asyncio.run(main())
    assert (delivery.status, delivery.attempts) == (JobStatus.COMPLETE, 1)
    assert len(receiver.requests) == 1


def test_a_private_address_is_refused(tmp_path, receiver):
    async def main():
        async with working(tmp_path, allow_private=False) as engine:
            webhook = await engine.webhooks.add(receiver.url)
            await engine.enqueue(sell, "tea")
            return await delivered(engine, webhook)

    (delivery,) = asyncio.run(main())
    assert delivery.error.code == "URL_REFUSED"
    assert receiver.requests == ()


def test_each_host_has_a_breaker_of_its_own(tmp_path, receiver):
    async def main():
        async with working(tmp_path) as engine:
            webhook = await engine.webhooks.add(receiver.url)
            await engine.enqueue(sell, "tea")
            await delivered(engine, webhook)
            return [record.name for record in await engine.downstreams.list()]

    names = asyncio.run(main())
    assert names == [f"webhook:{receiver.url.removeprefix('http://')}"]


def test_nothing_is_sent_to_a_webhook_that_was_removed_meanwhile(tmp_path, receiver):
    async def main():
        async with working(tmp_path, works=False) as engine:
            webhook = await engine.webhooks.add(receiver.url)
            await engine.webhooks.test(webhook.id)
            await engine.webhooks.remove(webhook.id)
            await engine.work(until_idle=True)
            with pytest.raises(UnknownWebhook):
                await engine.webhooks.remove(webhook.id)
            return await engine.webhooks.deliveries(webhook.id)

    (delivery,) = asyncio.run(main())
    assert (delivery.status, delivery.http_status) == (JobStatus.COMPLETE, None)
    assert receiver.requests == ()


# -- following -------------------------------------------------------------------------------------


def test_a_crash_between_enqueueing_and_noting_creates_no_second_delivery(tmp_path, receiver):
    async def main():
        async with working(tmp_path, works=False) as engine:
            webhook = await engine.webhooks.add(receiver.url)
            for item in ("tea", "nothing", "milk"):
                await engine.enqueue(sell, item)
            await engine.work(until_idle=True, options=WorkerOptions(maintenance=None))
            dispatch = WebhookDispatch(engine.store, kind_of(engine), interval=1, batch=2)
            noted = engine.store.move_webhook_cursor

            async def crash(_sequence):
                raise ConnectionError

            engine.store.move_webhook_cursor = crash
            for _ in range(2):
                with pytest.raises(ConnectionError):
                    await dispatch.round()
            engine.store.move_webhook_cursor = noted
            await dispatch.round()
            assert await dispatch.round() == 0
            return await engine.webhooks.deliveries(webhook.id)

    assert len(asyncio.run(main())) == 3


def test_retention_waits_for_the_deliveries_of_what_has_ended(tmp_path, receiver, either_url):
    async def main():
        async with working(tmp_path, url=either_url, works=False) as engine:
            webhook = await engine.webhooks.add(receiver.url)
            await engine.enqueue(fleeting)
            await engine.work(until_idle=True, options=WorkerOptions(maintenance=None))
            retention = RetentionService(engine.store, shop.kinds, "upkeep", interval=60)
            dispatch = WebhookDispatch(engine.store, kind_of(engine), interval=1)

            assert (await retention.round(), retention.interval) == (0, 1.0)
            await dispatch.round()
            # What ends later is not waited for, or a busy fleet would never delete anything.
            await engine.enqueue(count)
            await engine.work(until_idle=True, options=WorkerOptions(maintenance=None))
            assert (await retention.round(), retention.interval) == (1, 60)
            assert await dispatch.round() == 1
            return await engine.webhooks.deliveries(webhook.id)

    assert [each.event for each in asyncio.run(main())] == ["job.complete", "job.complete"]


def test_retention_waits_an_hour_at_most_and_says_so(tmp_path, caplog):
    async def main():
        async with working(tmp_path, works=False) as engine:
            await engine.webhooks.add("https://example.org/x")
            await engine.enqueue(fleeting)
            await engine.work(until_idle=True, options=WorkerOptions(maintenance=None))
            clock = VirtualClock()
            retention = RetentionService(
                engine.store, shop.kinds, "upkeep", interval=60, clock=clock
            )

            assert await retention.round() == 0
            clock.advance(3599)
            assert await retention.round() == 0
            assert "deleted though webhooks" not in caplog.text
            clock.advance(1)
            assert await retention.round() == 1
            assert "deleted though webhooks" in caplog.text

    asyncio.run(main())


def test_a_new_leader_waits_only_for_the_rest_of_the_hour(tmp_path, either_url, caplog):
    """The time without a leader does not count: then no worker could have delivered anything."""

    async def main():
        async with working(tmp_path, url=either_url, works=False) as engine:
            await engine.webhooks.add("https://example.org/x")
            await engine.enqueue(fleeting)
            await engine.work(until_idle=True, options=WorkerOptions(maintenance=None))
            clock = VirtualClock()

            def leader():
                return RetentionService(
                    engine.store, shop.kinds, "upkeep", interval=60, clock=clock
                )

            for _ in range(6):  # each for ten minutes
                retention = leader()
                assert await retention.round() == 0
                clock.advance(599)
                assert await retention.round() == 0
                clock.advance(7200)
            retention = leader()
            assert await retention.round() == 0
            clock.advance(6)
            assert await retention.round() == 1
            assert "deleted though webhooks" in caplog.text

            # The next wait is a new one.
            await engine.enqueue(fleeting)
            await engine.work(until_idle=True, options=WorkerOptions(maintenance=None))
            clock.advance(3600)
            assert await leader().round() == 0

    asyncio.run(main())


def test_a_new_leader_waits_for_all_that_has_ended_when_it_begins(tmp_path, either_url, caplog):
    async def main():
        async with working(tmp_path, url=either_url, works=False) as engine:
            await engine.webhooks.add("https://example.org/x")
            clock, store = VirtualClock(), engine.store

            def leader():
                return RetentionService(store, shop.kinds, "upkeep", interval=60, clock=clock)

            async def end(jobs):
                for _ in range(jobs):
                    await engine.enqueue(fleeting)
                await engine.work(until_idle=True, options=WorkerOptions(maintenance=None))

            await end(1)
            first = leader()
            assert await first.round() == 0
            clock.advance(20)
            assert await first.round() == 0
            enqueued = await store.last_sequence()

            await end(3)
            second = leader()
            assert await second.round() == 0
            await store.move_webhook_cursor(enqueued)
            assert await second.round() == 0, "deliveries of three jobs are missing"
            await store.move_webhook_cursor(await store.last_sequence())
            assert await second.round() == 4
            assert "deleted though webhooks" not in caplog.text

    asyncio.run(main())


def test_each_leadership_has_its_own_hour(tmp_path, caplog):
    """Workers of another app may deliver nothing, so what they have waited does not count."""

    async def main():
        async with working(tmp_path, works=False) as engine:
            await engine.webhooks.add("https://example.org/x")
            await engine.enqueue(fleeting)
            await engine.work(until_idle=True, options=WorkerOptions(maintenance=None))
            clock = VirtualClock()

            def leader(leadership):
                return RetentionService(
                    engine.store, shop.kinds, leadership, interval=60, clock=clock
                )

            first = leader("one app")
            assert await first.round() == 0
            clock.advance(3599)
            assert await first.round() == 0
            second = leader("another")
            assert await second.round() == 0
            clock.advance(60)
            assert await second.round() == 0
            assert await leader("one app").round() == 0, "a second of its hour is left"

    asyncio.run(main())


def test_a_stored_address_that_cannot_be_told_holds_up_no_other(tmp_path, receiver, caplog):
    async def main():
        async with working(tmp_path, works=False) as engine:
            good = await engine.webhooks.add(receiver.url)
            for number, url in enumerate(("http://example.org /x", f"http://{'x' * 300}/")):
                bad = NewWebhook(f"bad{number}", url, None, None, ENDS, good.secret)
                await engine.store.add_webhook(bad)
            await engine.enqueue(sell, "tea")
            await engine.work(until_idle=True, options=WorkerOptions(maintenance=None))
            dispatch = WebhookDispatch(engine.store, kind_of(engine), interval=1)
            assert (await dispatch.round(), await dispatch.round()) == (1, 0)
            return await engine.webhooks.deliveries(good.id)

    assert len(asyncio.run(main())) == 1
    assert "webhook bad0" in caplog.text
    assert "webhook bad1" in caplog.text


def test_a_webhook_that_is_added_while_events_are_read_misses_nothing(tmp_path, receiver):
    async def main():
        async with working(tmp_path, works=False) as engine:
            await engine.webhooks.add(receiver.url, events=["cancelled"])
            read, late = engine.store.changes_since, []

            async def reading(sequence, **options):
                if not late:
                    late.append(await engine.webhooks.add(receiver.url))
                    await engine.enqueue(sell, "tea")
                    await engine.work(until_idle=True, options=WorkerOptions(maintenance=None))
                return await read(sequence, **options)

            engine.store.changes_since = reading
            assert await WebhookDispatch(engine.store, kind_of(engine), interval=1).round() == 1
            return await engine.webhooks.deliveries(late[0].id)

    assert len(asyncio.run(main())) == 1


def test_without_webhooks_or_without_the_app_no_history_is_read(tmp_path):
    async def main():
        async with working(tmp_path, works=False) as engine:

            async def read(*_args, **_options):
                raise AssertionError

            engine.store.changes_since = read
            assert await WebhookDispatch(engine.store, kind_of(engine), interval=1).round() == 0
            idle = WebhookDispatch(engine.store, shop.kinds, interval=1)
            await engine.webhooks.add("https://example.org/x")
            assert (await idle.round(), idle.interval) == (0, 3600.0)

    asyncio.run(main())


# -- adding ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "ftp://example.org/",
        "http://",
        "http://ann@example.org/",
        "http://[::1",
        "http://example.org:0/",
        "http://example.org/a b\n",
        f"http://example.org/{'x' * 2000}",
        "http://example.org /x",
        "http://exam ple.org/x",
        "http://example.org/a b",
        f"http://{'x' * 300}/",
    ],
)
def test_an_address_that_cannot_be_told_is_refused(tmp_path, url):
    with (
        Engine(f"sqlite:///{tmp_path / 'work.db'}").blocking() as engine,
        pytest.raises(ValueError, match="url"),
    ):
        engine.webhooks.add(url)


@pytest.mark.parametrize(
    "options, line",
    [
        ({"events": []}, "events"),
        ({"events": ["processing"]}, "events"),
        ({"kinds": []}, "kinds"),
        ({"kinds": "shop.sell"}, "kinds"),
        ({"kinds": [""]}, "kinds"),
        ({"owner": ""}, "owner"),
        ({"secret": "whsec_"}, "secret"),
        ({"secret": "whsec_!!!"}, "secret"),
        ({"secret": "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, "secret"),
    ],
)
def test_options_that_cannot_be_used_are_refused(tmp_path, options, line):
    with (
        Engine(f"sqlite:///{tmp_path / 'work.db'}").blocking() as engine,
        pytest.raises(ValueError, match=line),
    ):
        engine.webhooks.add("https://example.org/x", **options)


def test_webhooks_are_kept_found_and_removed(tmp_path):
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    with Engine(f"sqlite:///{tmp_path / 'work.db'}").blocking() as engine:
        mine = engine.webhooks.add("https://example.org/x", owner="ann", secret=secret)
        other = engine.webhooks.add("https://example.org/x")
        assert (mine.secret, mine.events) == (secret, ("complete", "failed", "cancelled"))
        assert other.secret.startswith("whsec_")
        assert other.secret not in repr(other)
        assert engine.webhooks.list() == (mine, other)
        assert engine.webhooks.list("ann") == (mine,)
        assert engine.webhooks.get(mine.id) == mine
        assert engine.webhooks.deliveries(mine.id) == ()
        with pytest.raises(UnknownKind):
            engine.webhooks.test(mine.id)
        engine.webhooks.remove(mine.id)
        with pytest.raises(UnknownWebhook):
            engine.webhooks.get(mine.id)
