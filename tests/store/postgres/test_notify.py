"""Wake-ups: fast, debounced, and not needed for correctness."""

import asyncio
import contextlib
import time

import asyncpg
import pytest
from tests.store.postgres.conftest import ANY, jobs
from tests.support.waiting import SOON, until

from holdfast.clock import SYSTEM_CLOCK
from holdfast.jobs.model import Completed, Finished, JobStatus, NewJob
from holdfast.jobs.store_port import ClaimRequest, RetentionRule, StoreUnavailable
from holdfast.store.postgres import notify
from holdfast.store.postgres.notify import Notifier, Signal
from holdfast.testing import VirtualClock


def test_a_signal_wakes_all_waiting_tasks_and_is_remembered():
    async def scenario():
        signal = Signal()
        assert not await signal.wait(0, 0.001)
        waiting = [asyncio.create_task(signal.wait(0, 10)) for _ in range(3)]
        await asyncio.sleep(0)
        signal.send()
        assert await asyncio.gather(*waiting) == [True] * 3
        assert await signal.wait(0, 0)
        assert not await signal.wait(1, 0)

    asyncio.run(scenario())


class Server:
    """Records when it is notified, by `clock`, and of what; each takes it `seconds`."""

    def __init__(self, clock, seconds, error):
        self.clock, self.seconds, self.error, self.notified = clock, seconds, error, []

    async def rows(self, query, *, payload):
        assert query == "notify"
        if self.seconds:
            await self.clock.sleep_async(self.seconds)
        if self.error is not None:
            raise self.error
        self.notified.append((round(self.clock.monotonic(), 3), payload.partition(" ")[0]))


@pytest.fixture
def notified():
    """Run a scenario with a notifier on a virtual clock; return what it sent, and when."""

    def run(scenario, *, seconds=0.0, error=None):
        clock = VirtualClock()
        server = Server(clock, seconds, error)

        async def main():
            notifier = Notifier(server, clock)
            notifier.start()
            await scenario(notifier, clock)
            await clock.sleep_async(1)
            await notifier.close()

        clock.run(main())
        return server.notified

    return run


def test_the_claim_of_a_short_job_and_its_end_are_one_notification(notified):
    async def scenario(notifier, clock):
        notifier.changed(work=False)
        await clock.sleep_async(0.003)
        notifier.changed(work=False)

    assert notified(scenario) == [(0.005, "changes")]


def test_a_notification_that_goes_with_a_commit_begins_a_pause(notified):
    async def scenario(notifier, clock):
        assert notifier.work_payload() is not None
        notifier.changed(work=True, notified=True)
        await clock.sleep_async(0.002)
        assert notifier.work_payload() is None
        notifier.changed(work=True)
        await clock.sleep_async(0.002)
        notifier.changed(work=True)
        await clock.sleep_async(0.1)
        assert notifier.work_payload() is not None

    assert notified(scenario) == [(0.005, "work")]


def test_no_notification_goes_with_a_commit_while_another_is_being_sent(notified):
    async def scenario(notifier, clock):
        notifier.changed(work=True)
        await clock.sleep_async(0.001)
        assert notifier.work_payload() is None

    assert notified(scenario, seconds=0.003) == [(0.003, "work")]


async def requested_and_closed(notifier, clock):
    notifier.changed(work=True)
    notifier.changed(work=False)
    await notifier.close()


def test_what_is_requested_is_sent_before_the_close(notified):
    assert notified(requested_and_closed) == [(0.0, "work"), (0.0, "changes")]


def test_a_notification_that_the_close_interrupts_is_sent_again(notified):
    async def scenario(notifier, clock):
        notifier.changed(work=True)
        await clock.sleep_async(0.1)
        await notifier.close()

    assert notified(scenario, seconds=0.3) == [(0.4, "work")]


def test_a_server_that_does_not_answer_delays_the_close_for_a_second(notified):
    async def scenario(notifier, clock):
        began = clock.monotonic()
        await requested_and_closed(notifier, clock)
        assert clock.monotonic() - began == pytest.approx(1.0)

    assert notified(scenario, seconds=60.0) == []


def test_a_close_without_a_server_does_not_fail(notified):
    assert notified(requested_and_closed, error=StoreUnavailable("gone")) == []


async def listening(store):
    """Return once `store` listens for notifications."""
    mark = (await store.tick("w", claim=ANY)).mark
    assert await store.wait_for_work(mark, 20)  # the first wait begins to listen


def test_a_job_of_another_process_is_started_soon(bench):
    async def scenario():
        async with bench.stores(2) as (worker, api):
            await listening(worker)
            delays = []
            for n in range(20):
                mark = (await worker.tick("w", claim=ANY)).mark
                waiting = asyncio.create_task(worker.wait_for_work(mark, SOON))
                await asyncio.sleep(0)
                began = time.perf_counter()
                await api.enqueue([NewJob(f"job-{n}", "work")])
                assert await waiting
                assert len((await worker.tick("w", claim=ANY)).claims) == 1
                delays.append(time.perf_counter() - began)
            assert sorted(delays)[10] < 5

    asyncio.run(scenario())


def test_jobs_of_a_process_that_closes_right_after_them_are_started_soon(bench):
    async def scenario():
        async with bench.stores(1) as (worker,):
            await listening(worker)
            mark = (await worker.tick("w", claim=ANY)).mark
            async with bench.stores(1) as (api,):
                await api.enqueue(jobs(2))
            assert await worker.wait_for_work(mark, SOON)

    asyncio.run(scenario())


def test_a_wake_up_goes_with_the_commit_of_a_joined_transaction(bench):
    async def scenario():
        async with bench.stores(2) as (worker, api):
            await listening(worker)
            mark = (await worker.tick("w", claim=ANY)).mark
            connection = await asyncpg.connect(bench.url)
            async with connection.transaction():
                await api.enqueue_on(connection, [NewJob("a", "work")])
                assert not await worker.wait_for_work(mark, 0.2)
            assert await worker.wait_for_work(mark, 10)
            await connection.close()

    asyncio.run(scenario())


def test_a_lost_wake_up_is_found_by_polling(bench):
    """Without notification and listener the job is claimed too."""

    async def scenario():
        async with bench.stores(2) as (worker, api):
            await api._notifier.close()
            idle = await worker.tick("w", claim=ANY)
            await api.enqueue(jobs(2))
            await worker.wait_for_work(idle.mark, 0.05)
            assert len((await worker.tick("w", claim=ANY)).claims) == 2

    asyncio.run(scenario())


def test_after_a_reconnect_it_listens_and_then_looks(bench):
    async def scenario():
        async with bench.stores(2) as (worker, api):
            await listening(worker)
            mark = (await worker.tick("w", claim=ANY)).mark
            connection = await asyncpg.connect(bench.url)
            cut = await connection.fetch(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE query LIKE 'LISTEN%' AND datname = current_database()"
            )
            assert len(cut) == 1
            await api._notifier.close()  # so that no notification is sent
            await api.enqueue(jobs(2))
            assert await worker.wait_for_work(mark, 20)
            assert len((await worker.tick("w", claim=ANY)).claims) == 2
            await connection.close()

    asyncio.run(scenario())


def test_a_connection_that_breaks_before_it_listens_does_not_end_the_listening(bench, monkeypatch):
    async def scenario():
        async with bench.stores(2) as (worker, api):
            connect, opened = worker._database.connect, []

            async def breaks_once():
                opened.append(await connect())
                if len(opened) == 1:
                    opened[0].terminate()
                return opened[-1]

            monkeypatch.setattr(worker._database, "connect", breaks_once)
            await listening(worker)
            assert len(opened) == 2
            mark = (await worker.tick("w", claim=ANY)).mark
            await api.enqueue([NewJob("a", "work")])
            assert await worker.wait_for_work(mark, 20)

    asyncio.run(scenario())


def test_a_busy_process_notifies_at_most_every_few_milliseconds(bench, monkeypatch):
    monkeypatch.setattr(notify, "_WORK_PAUSE", 0.2)
    monkeypatch.setattr(notify, "_CHANGES_PAUSE", 0.2)

    async def scenario():
        heard = []
        connection = await asyncpg.connect(bench.url)
        await connection.add_listener("holdfast", lambda *message: heard.append(message[3]))
        async with bench.stores(1) as (store,):
            began = time.monotonic()
            for n in range(50):
                await store.enqueue([NewJob(f"job-{n}", "work")])
                await store.tick("w", claim=ANY)
            await until(lambda: {each.partition(" ")[0] for each in heard} >= {"work", "changes"})
        took = time.monotonic() - began  # the close has sent what was pending
        await connection.close()
        told = [payload.partition(" ")[0] for payload in heard]
        assert 1 <= told.count("work") <= took / 0.2 + 2
        assert 1 <= told.count("changes") <= took / 0.2 + 2

    asyncio.run(scenario())


def test_a_wake_up_goes_with_the_commit_of_a_job_alone(bench):
    async def scenario():
        async with bench.stores(2) as (worker, api):
            await listening(worker)
            mark = (await worker.tick("w", claim=ANY)).mark
            await api._notifier.close()  # so that no notification is sent by itself
            await api.enqueue([NewJob("a", "work")])
            assert await worker.wait_for_work(mark, 20)

    asyncio.run(scenario())


def test_a_job_alone_does_not_wait_for_the_notification_of_another(bench):
    """Its own is then sent after its commit."""

    async def scenario():
        async with bench.stores(2) as (worker, api):
            await listening(worker)
            mark = (await worker.tick("w", claim=ANY)).mark
            connection = await asyncpg.connect(bench.url)
            async with connection.transaction():
                assert await connection.fetchval(
                    "SELECT pg_try_advisory_xact_lock("
                    "(18502::bigint << 48) | ((1::bigint << 48) - 2))"
                )
                async with asyncio.timeout(20):
                    await api.enqueue([NewJob("a", "work")])
                assert await worker.wait_for_work(mark, 20)
            await connection.close()

    asyncio.run(scenario())


def test_new_work_sends_no_notification_of_a_change_as_well(bench):
    """Processes that wait for changes are woken by work too."""

    async def scenario():
        heard = []
        connection = await asyncpg.connect(bench.url)
        await connection.add_listener("holdfast", lambda *message: heard.append(message[3]))
        async with bench.stores(1) as (store,):
            await store.enqueue([NewJob("a", "work")])
            await until(lambda: heard)
            await store.tick("w", claim=ANY)
            await until(lambda: len(heard) == 2)
        await connection.close()
        assert [payload.partition(" ")[0] for payload in heard] == ["work", "changes"]

    asyncio.run(scenario())


def test_a_process_does_not_wake_itself_twice(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            await listening(store)
            await store.enqueue([NewJob("a", "work")])
            mark = (await store.tick("w", claim=ANY)).mark
            assert not await store.wait_for_work(mark, 0.3)

    asyncio.run(scenario())


def test_changes_of_another_process_wake_a_waiting_task(bench):
    async def scenario():
        async with bench.stores(2) as (page, worker):
            await listening(page)
            start = await page.last_sequence()
            waiting = asyncio.create_task(page.wait_for_changes(start, 20))
            await worker.enqueue(jobs(3))
            assert await waiting
            assert len(await page.changes_since(start)) == 3

    asyncio.run(scenario())


def test_numbers_that_were_lost_do_not_wake_a_reader(bench):
    """A rollback, a crash and retention leave gaps in the sequence."""

    async def scenario():
        async with bench.stores(2) as (page, worker):
            await worker.enqueue(jobs(2))
            (*_, last) = await page.changes_since(0)
            connection = await asyncpg.connect(bench.url)
            transaction = connection.transaction()
            await transaction.start()
            await worker.enqueue_on(connection, [NewJob("never", "work")])
            await transaction.rollback()
            assert not await page.wait_for_changes(last.sequence, 0.3)
            waiting = asyncio.create_task(page.wait_for_changes(last.sequence, 20))
            await worker.enqueue(jobs(1, prefix="more"))
            assert await waiting
            (event,) = await page.changes_since(last.sequence)
            assert event.job_id == "more-00000"
            await connection.close()

    asyncio.run(scenario())


def test_what_retention_deleted_does_not_wake_a_reader(bench):
    """Also if it deletes only part of a page that the reader has seen."""

    async def scenario():
        async with bench.stores(1) as (store,):
            await store.enqueue([*jobs(1), *jobs(1, "gone", prefix="gone")])
            request = ClaimRequest(1, ("default",), {"gone": None})
            (claim,) = (await store.tick("w", claim=request)).claims
            await store.tick("w", [Finished(claim.lease, Completed())])
            first = (await store.changes_since(0))[0]
            assert first.job_id == "job-00000"
            assert await store.wait_for_changes(first.sequence, 20)
            await store.delete_finished(RetentionRule("gone", JobStatus.COMPLETE, max_count=0))
            assert await store.changes_since(first.sequence) == ()
            assert not await store.wait_for_changes(first.sequence, 0.2)

    asyncio.run(scenario())


def test_a_process_listens_from_the_first_wait_on(bench):
    async def scenario():
        async with bench.stores(1) as (store,):
            await store.enqueue([NewJob("a", "work")])
            connection = await asyncpg.connect(bench.url)
            count = await connection.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' "
                "AND datname = current_database()"
            )
            await connection.close()
            return count

    assert asyncio.run(scenario()) == 0


@pytest.mark.parametrize("clock", [SYSTEM_CLOCK])
def test_notifications_go_on_after_an_outage(bench, clock):
    async def scenario():
        async with bench.stores(1, clock=clock) as (store,):
            connection, heard = await asyncpg.connect(bench.url), []
            await connection.add_listener("holdfast", lambda *message: heard.append(message[3]))
            await store.enqueue(jobs(1))
            await until(lambda: heard)
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            with contextlib.suppress(StoreUnavailable):
                await store.enqueue(jobs(1, prefix="meanwhile"))
            heard.clear()

            async def enqueued():
                with contextlib.suppress(StoreUnavailable):
                    return await store.enqueue(jobs(1, prefix="after"))

            await until(enqueued)
            await until(lambda: heard)
            await connection.close()

    asyncio.run(scenario())
