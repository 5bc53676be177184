"""Relays that meet on one message of the outbox."""

import asyncio
import json

import asyncpg
import pytest
from tests.support.waiting import until

from holdfast import Engine
from holdfast.outbox import MessageDraft, MessageStatus
from holdfast.store.joining import numbered
from holdfast.store.postgres.connection import SQL
from holdfast.store.postgres.session import SETTINGS

OLD_ROWS = {
    "outbox_delete_published": (
        "outbox",
        "(id, aggregate_id, message_type, payload, status, created_at, due_at, processed_at) "
        "SELECT to_char(n, '00000'), 'order', 'order.placed', '{}', 'published', 0, 0, n",
    ),
    "inbox_delete": ("inbox", "SELECT 'orders', 'request-' || n, n"),
    "handling_delete": ("handling", "SELECT 'orders', 'request-' || n, 0, 1, 1, false, NULL, n"),
}
"""For each statement that deletes old rows: its table, and how to fill it."""


def test_a_message_that_is_published_meanwhile_is_not_claimed(postgres_url):
    """A late report holds the row while another relay claims: it waits, and looks again."""

    async def scenario():
        async with Engine(postgres_url) as engine:
            await engine.handling.add([MessageDraft("order-1", "order.placed", {})])
            store = engine.store.outbox
            (claim,) = (await store.tick((), 1, 20.0)).claims
            reporting = await asyncpg.connect(postgres_url)
            # The lease has expired, and no relay has claimed the message since.
            await reporting.execute("UPDATE holdfast.outbox SET claimable_at = NULL")
            transaction = reporting.transaction()
            await transaction.start()
            await reporting.execute(
                "SELECT holdfast.report_messages($1, $2, $3, $4, $5, NULL)",
                [claim.id], [claim.token], ["published"], [None], [0.0],
            )  # fmt: skip
            claiming = asyncio.create_task(store.tick((), 1, 20.0))
            await until(lambda: _waits_for_a_lock(reporting))
            await transaction.commit()
            assert (await claiming).claims == ()
            assert (await engine.outbox.get(claim.id)).status is MessageStatus.PUBLISHED
            await reporting.close()

    asyncio.run(scenario())


def test_a_claim_reads_few_pages_of_a_large_outbox(postgres_url):
    """Also where its plan is made while the server knows how large the table is."""

    async def scenario():
        async with Engine(postgres_url) as engine:
            # One after the other, so that the ids are in the order of the rows.
            for start in range(0, 6000, 100):
                numbers = range(start, start + 100)
                drafts = [MessageDraft(f"order-{n}", "order.placed", {}) for n in numbers]
                await engine.handling.add(drafts)
            connection = await asyncpg.connect(postgres_url, server_settings=SETTINGS)
            await connection.execute("ANALYZE holdfast.outbox")
            (found,) = await connection.fetchrow(
                "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "
                "SELECT * FROM holdfast.relay_tick('{}', '{}', '{}', '{}', '{}', 10, 20.0, NULL)"
            )
            await connection.close()
        plan = json.loads(found)[0]["Plan"]
        assert plan["Actual Rows"] == 10
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 1500

    asyncio.run(scenario())


@pytest.mark.parametrize("known", [True, False], ids=["statistics", "no-statistics"])
@pytest.mark.parametrize("query", OLD_ROWS)
def test_deleting_a_few_old_rows_reads_few_pages_of_a_large_table(postgres_url, query, known):
    table, rows = OLD_ROWS[query]
    text, names = numbered(SQL[query])
    given = {"now": "1000000", "max_age": "0", "limit": "10"}

    async def scenario():
        async with Engine(postgres_url):
            connection = await asyncpg.connect(postgres_url, server_settings=SETTINGS)
            await connection.execute(f"ALTER TABLE holdfast.{table} SET (autovacuum_enabled = off)")
            fill = f"INSERT INTO holdfast.{table} {rows} FROM generate_series(1, 10000) AS n"
            await connection.execute(fill)
            if known:
                await connection.execute(f"ANALYZE holdfast.{table}")
            await connection.execute(f"PREPARE deletion AS {text}")
            values = ", ".join(given[name] for name in names)
            (found,) = await connection.fetchrow(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE deletion({values})"
            )
            await connection.close()
        return json.loads(found)[0]["Plan"]

    plan = asyncio.run(scenario())
    assert plan["Actual Rows"] == 10
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 100


def test_a_message_is_added_after_the_server_was_started_again(postgres_url):
    """What the store compares first is then no longer true; the database is the same."""

    async def scenario():
        async with Engine(postgres_url) as engine:
            identity = engine.store.outbox._identity
            own = identity._own = (await identity.own())._replace(server_start="1")
            connection = await asyncpg.connect(postgres_url)
            async with connection.transaction():
                added = await engine.outbox.add(connection, "order-1", "order.placed", {})
            await connection.close()
            assert await engine.outbox.get(added) is not None
            assert (await identity.own()).server_start != own.server_start

    asyncio.run(scenario())


def test_many_consumers_at_once_open_no_connection_of_the_store(postgres_url, monkeypatch):
    """On a busy machine one of so many could take longer than a connection may."""

    async def none():
        raise AssertionError("a connection was opened")

    async def scenario():
        async with Engine(postgres_url) as engine:
            monkeypatch.setattr(engine.store._database._pool, "_connect", none)

            async def handle():
                connection = await asyncpg.connect(postgres_url)
                try:
                    async with connection.transaction():
                        return await engine.inbox.first(connection, "request-1")
                finally:
                    await connection.close()

            answers = await asyncio.gather(*(handle() for _ in range(5)))
            assert sorted(answers) == [False] * 4 + [True]

    asyncio.run(scenario())


async def _waits_for_a_lock(connection):
    statement = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    return await connection.fetchval(statement)
