"""The audit log of a client, and how long its entries are kept."""

import asyncio

import pytest

from holdfast.jobs.client.client import Client
from holdfast.jobs.maintenance.audit_retention import MAX_AGE, AuditRetention
from holdfast.store.sqlite.store import SQLiteStore
from holdfast.testing import VirtualClock


def run(tmp_path, story):
    async def live():
        clock = VirtualClock()
        async with Client(SQLiteStore(tmp_path / "work.db", clock=clock), clock=clock) as client:
            await story(client, clock)

    asyncio.run(live())


def test_entries_are_written_with_their_time_and_listed(tmp_path):
    async def story(client, clock):
        entry = await client.audit.record("jobs.retry", "j1", who="ann\n", detail={"n": 1})
        assert (entry.at, entry.who, entry.role) == (clock.wall(), "ann", "full")
        assert (await client.audit.list()).entries == (entry,)
        for wrong in ({"action": ""}, {"who": ""}):
            with pytest.raises(ValueError, match="empty"):
                await client.audit.record(**{"action": "x", "who": "ann", **wrong})
        with pytest.raises(ValueError, match="limit"):
            await client.audit.list(limit=1001)

    run(tmp_path, story)


def test_entries_are_deleted_after_ninety_days_in_batches(tmp_path):
    async def story(client, clock):
        for number in range(7):
            await client.audit.record("jobs.retry", f"j{number}", who="ann")
        service = AuditRetention(client.store, interval=60.0, batch=3)
        assert await service.round() == 0
        clock.sleep(MAX_AGE + 1)
        await client.audit.record("jobs.retry", "late", who="ann")
        assert await service.round() == 7
        assert [entry.target for entry in (await client.audit.list()).entries] == ["late"]

    run(tmp_path, story)
