"""From requests to stored jobs: validated first, written once, or in the caller's transaction."""

import asyncio
from dataclasses import dataclass

import apsw
import pytest

from holdfast.bootstrap import open_store
from holdfast.clock import SYSTEM_CLOCK
from holdfast.jobs.client.enqueue import Enqueuer
from holdfast.jobs.client.requests import JobRequest
from holdfast.jobs.declare.app import App
from holdfast.jobs.declare.declared_downstream import Downstream
from holdfast.jobs.declare.registry import Registry
from holdfast.jobs.declare.validation import PayloadTooLarge, ValidationError
from holdfast.jobs.exceptions import UnknownKind
from holdfast.jobs.model import Enqueued
from holdfast.jobs.store_port import StoreBusy, StoreUnusable
from holdfast.testing import VirtualClock

app = App("invoices")


@dataclass(frozen=True, slots=True)
class Order:
    number: int
    host: str = "a.org"


@app.job(downstream=Downstream("gateway", concurrency=3))
def send(ctx, args: Order): ...


@app.job(deadline=60)
def urgent(ctx): ...


@app.job(downstream=Downstream("host", key=lambda args: args.host, concurrency=1))
def fetch(ctx, args: Order): ...


class RecordedEnqueue:
    def __init__(self):
        self.calls = []

    async def enqueue_on(self, connection, jobs):
        self.calls.append((connection, [job.kind for job in jobs]))
        return tuple(Enqueued(job.id, created=True) for job in jobs)


def use(tmp_path, scenario, *, clock=None, transactional=None, limit=10_000):
    clock = clock or VirtualClock()

    async def main():
        async with open_store(f"sqlite:///{tmp_path}/work.db", clock=clock) as store:
            enqueuer = Enqueuer(
                store, Registry([app]), clock, payload_limit=limit, transactional=transactional
            )
            await enqueuer.declare()
            try:
                return await scenario(enqueuer, store)
            finally:
                await enqueuer.close()

    return asyncio.run(main())


def test_requests_of_several_kinds_are_stored_in_their_order(tmp_path):
    async def scenario(enqueuer, store):
        handles = await enqueuer.enqueue([JobRequest(send, Order(1)), JobRequest(urgent, None)])
        assert [handle.kind for handle in handles] == ["invoices.send", "invoices.urgent"]
        assert all(handle.created for handle in handles)
        first = await store.get(handles[0].id)
        assert (first.arguments, first.downstream) == ('{"number":1,"host":"a.org"}', "gateway")

    use(tmp_path, scenario)


def test_without_requests_nothing_is_written(tmp_path):
    async def scenario(enqueuer, store):
        assert await enqueuer.enqueue([]) == ()
        assert await enqueuer.enqueue(iter(())) == ()

    use(tmp_path, scenario)


@pytest.mark.parametrize(
    "bad, error",
    [
        (JobRequest(send, Order("x")), ValidationError),
        (JobRequest(send, Order(1, "x" * 10_000)), PayloadTooLarge),
        (JobRequest("invoices.gone", None), UnknownKind),
        (JobRequest(send, Order(1), priority=10**6), ValidationError),
        (JobRequest(print, None), TypeError),
    ],
)
def test_one_invalid_request_refuses_all(tmp_path, bad, error):
    async def scenario(enqueuer, store):
        with pytest.raises(error):
            await enqueuer.enqueue([JobRequest(send, Order(1)), bad])
        assert (await store.list_jobs()).jobs == ()
        assert await store.last_sequence() == 0

    use(tmp_path, scenario)


def test_a_duplicate_is_found_by_its_key_and_by_its_id(tmp_path):
    async def scenario(enqueuer, store):
        first, twin = await enqueuer.enqueue(
            [JobRequest(send, Order(n), dedup_key="order-1") for n in (1, 2)]
        )
        assert (twin.id, first.created, twin.created) == (first.id, True, False)
        (named,) = await enqueuer.enqueue([JobRequest(urgent, None, id="mine")])
        (again,) = await enqueuer.enqueue([JobRequest(urgent, None, id="mine")])
        assert (named.id, again.id, again.created) == ("mine", "mine", False)

    use(tmp_path, scenario)


def test_a_kinds_deadline_counts_by_the_stores_clock(tmp_path):
    clock = VirtualClock()

    async def scenario(enqueuer, store):
        (handle,) = await enqueuer.enqueue([JobRequest(urgent, None)])
        assert (await store.get(handle.id)).deadline_at == clock.wall() + 60

    use(tmp_path, scenario, clock=clock)


def test_known_downstreams_are_declared_at_once_and_keyed_ones_with_their_first_job(tmp_path):
    async def scenario(enqueuer, store):
        assert [record.name for record in await store.downstreams()] == ["gateway"]
        await enqueuer.enqueue([JobRequest(fetch, Order(1, host)) for host in ("b.org", "a.org")])
        records = {record.name: record for record in await store.downstreams()}
        assert list(records) == ["gateway", "host:a.org", "host:b.org"]
        assert records["host:a.org"].settings.concurrency == 1
        await enqueuer.enqueue([JobRequest(fetch, Order(2, "a.org"))])
        assert (await store.downstream("host:a.org")).version == records["host:a.org"].version

    use(tmp_path, scenario)


def test_of_many_keys_only_some_are_remembered_as_declared(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.jobs.client.enqueue._MOST_DECLARED", 2)

    async def scenario(enqueuer, store):
        for host in ("a.org", "b.org", "c.org", "a.org"):
            await enqueuer.enqueue([JobRequest(fetch, Order(1, host))])
            assert len(enqueuer._declared) <= 2
        names = [record.name for record in await store.downstreams()]
        assert names == ["gateway", "host:a.org", "host:b.org", "host:c.org"]

    use(tmp_path, scenario)


def test_an_app_without_downstreams_declares_none(tmp_path):
    async def main():
        async with open_store(f"sqlite:///{tmp_path}/work.db") as store:
            clock = VirtualClock()
            await Enqueuer(
                store, Registry([]), clock, payload_limit=1, transactional=None
            ).declare()
            assert await store.downstreams() == ()

    asyncio.run(main())


def test_a_connection_is_passed_to_the_transactional_enqueue(tmp_path):
    transactional = RecordedEnqueue()

    async def scenario(enqueuer, store):
        (handle,) = await enqueuer.enqueue([JobRequest(send, Order(1))], "their connection")
        assert transactional.calls == [("their connection", ["invoices.send"])]
        assert await store.get(handle.id) is None

    use(tmp_path, scenario, transactional=transactional)


def test_a_connection_needs_an_engine_created_with_a_url(tmp_path):
    async def scenario(enqueuer, store):
        with pytest.raises(
            TypeError, match="connection= needs an engine that was created with a URL"
        ):
            await enqueuer.enqueue([JobRequest(send, Order(1))], object())
        assert (await store.list_jobs()).jobs == ()

    use(tmp_path, scenario)


async def declared(store, name):
    async with asyncio.timeout(20):
        while await store.downstream(name) is None:
            await asyncio.sleep(0.01)


def test_a_callers_open_transaction_does_not_block_its_own_enqueueing(tmp_path):
    async def scenario(enqueuer, store):
        theirs = apsw.Connection(str(store.path))
        theirs.execute("BEGIN IMMEDIATE")
        async with asyncio.timeout(20):
            await enqueuer.enqueue([JobRequest(fetch, Order(1, "a.org"))], theirs)
        assert await store.downstream("host:a.org") is None
        theirs.execute("COMMIT")
        await declared(store, "host:a.org")
        theirs.close()

    use(tmp_path, scenario, clock=SYSTEM_CLOCK, transactional=RecordedEnqueue())


def test_a_downstream_is_declared_once_the_store_is_free(tmp_path):
    async def scenario(enqueuer, store):
        declare, failures = store.declare_downstreams, [StoreBusy("busy")] * 3

        async def busy(settings, *, now=None):
            if failures:
                raise failures.pop()
            await declare(settings, now=now)

        store.declare_downstreams = busy
        await enqueuer.enqueue([JobRequest(fetch, Order(1, "a.org"))], "theirs")
        await declared(store, "host:a.org")
        assert failures == []

    use(tmp_path, scenario, transactional=RecordedEnqueue())


def test_a_downstream_that_cannot_be_declared_is_logged(tmp_path, caplog):
    async def scenario(enqueuer, store):
        async def broken(settings, *, now=None):
            raise StoreUnusable("no such table")

        store.declare_downstreams = broken
        await enqueuer.enqueue([JobRequest(fetch, Order(1, "a.org"))], "theirs")
        while "no such table" not in caplog.text:
            await asyncio.sleep(0.001)

    use(tmp_path, scenario, transactional=RecordedEnqueue())


def test_closing_does_not_wait_for_ever_for_a_declaration(tmp_path):
    async def scenario(enqueuer, store):
        async def stuck(settings, *, now=None):
            await asyncio.Event().wait()

        store.declare_downstreams = stuck
        await enqueuer.enqueue([JobRequest(fetch, Order(1, "a.org"))], "theirs")
        async with asyncio.timeout(10):
            await enqueuer.close()
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    use(tmp_path, scenario, transactional=RecordedEnqueue())


def test_a_bad_limit_is_refused(tmp_path):
    with pytest.raises(ValueError, match="payload_limit must be at least 1, got 0"):
        use(tmp_path, None, limit=0)


def test_only_job_requests_are_accepted(tmp_path):
    async def scenario(enqueuer, store):
        with pytest.raises(TypeError, match="a request must be a JobRequest, got 1"):
            await enqueuer.enqueue([1])

    use(tmp_path, scenario)


def test_one_call_has_one_rule_for_a_key(tmp_path):
    async def scenario(enqueuer, store):
        requests = [
            JobRequest(send, Order(1), dedup_key="k"),
            JobRequest(send, Order(2), dedup_key="k", dedup="unfinished"),
        ]
        with pytest.raises(ValidationError, match="'k' have different dedup or dedup_for"):
            await enqueuer.enqueue(requests)
        assert (await store.list_jobs()).jobs == ()

    use(tmp_path, scenario)
