"""An app with tables of its own, and the program that is killed while it writes to them.

    python -m tests.support.notes DATABASE_URL

adds a note and the job for it in one transaction, again and again, and prints each number after its
commit.
"""

import sys
from itertools import count

from holdfast import App, AppTables, Engine, JobContext

app = App("notes", tables=AppTables("tests.support.notes"))

TABLES = {
    "sqlite": {"notes": "notes", "words": "notes_words"},
    "postgresql": {"notes": "notes.notes", "words": "notes.words"},
}


def sql(engine: Engine, text: str) -> str:
    """Return `text` with the tables' names in this dialect."""
    return text.format(**TABLES[engine.database.dialect])


@app.job()
async def index(ctx: JobContext, number: int) -> int:
    """Store the words of a note in the transaction that completes the job."""
    engine: Engine = ctx.state
    found = sql(engine, "SELECT body FROM {notes} WHERE id = :id")
    ((body,),) = await engine.database.fetch(found, {"id": number})
    async with ctx.transaction() as connection:
        tx = engine.database.joined(connection)
        await tx.execute_many(
            sql(engine, "INSERT INTO {words} (note, word) VALUES (:note, :word)"),
            [{"note": number, "word": word} for word in body.split()],
        )
    return len(body.split())


async def add(engine: Engine, number: int, body: str) -> None:
    """Add a note and the job that indexes it, both or none."""
    async with engine.database.transaction() as tx:
        insert = sql(engine, "INSERT INTO {notes} (id, body) VALUES (:id, :body)")
        await tx.fetch(insert, {"id": number, "body": body})
        await engine.enqueue(index, number, connection=tx.connection)


async def add_forever(url: str) -> None:
    """Add notes until the process is killed."""
    async with Engine(url, apps=[app]) as engine:
        ((first,),) = await engine.database.fetch(sql(engine, "SELECT count(*) FROM {notes}"))
        for number in count(first + 1):
            await add(engine, number, f"note {number}")
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()
