"""The snippets of the how-to on exactly-once effects also hold on PostgreSQL."""

import asyncio
import re
from pathlib import Path

import asyncpg
from tests.support.postgres import (  # noqa: F401 - fixtures are found by name
    postgres_server,
    postgres_template,
    postgres_url,
)

from holdfast import Engine

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/exactly-once.md"


def test_the_jobs_of_the_page_change_their_rows_once_on_postgresql(postgres_url):  # noqa: F811 - a fixture
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        if not block.startswith(">>>"):
            exec(block, names)
    names["DATABASE"] = postgres_url.replace("://", "+asyncpg://", 1)

    async def go():
        connection = await asyncpg.connect(postgres_url)
        await connection.execute(
            "CREATE TABLE orders (number integer, shipped boolean DEFAULT false);"
            "INSERT INTO orders VALUES (7);"
            "CREATE TABLE totals (orders integer); INSERT INTO totals VALUES (0)"
        )
        async with Engine(postgres_url, apps=[names["shop"]]) as engine:
            shipped = await engine.enqueue(names["ship"], 7)
            counted = await engine.enqueue(names["count_orders"])
            await engine.work(until_idle=True)
            assert await engine.result(shipped) == "order 7 is on its way"
            assert await engine.result(counted) == 1
        assert await connection.fetchval("SELECT shipped FROM orders") is True
        assert await connection.fetchval("SELECT orders FROM totals") == 1
        await connection.close()

    names["folder"].cleanup()  # which the part on SQLite has made
    asyncio.run(go())
