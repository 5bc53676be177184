"""Delete the submissions of an owner, with all that was made of them."""

import asyncio

import msgspec

from holdfast import Engine
from holdfast.files import ArtifactStore
from holdfast_grading.messages import SubmissionPayload
from holdfast_grading.tables import sql_for

_OF_OWNER = """
    SELECT id, message_id, payload FROM {submissions}
    WHERE owner = :owner ORDER BY id LIMIT 500
"""
_DELETE_RESULTS = "DELETE FROM {results} WHERE submission_id = :id"
_DELETE = "DELETE FROM {submissions} WHERE id = :id RETURNING id"


async def erase_submissions(engine: Engine, files: ArtifactStore, owner: str) -> int:
    """Delete the submissions of `owner` and all that belongs to them; return how many.

    That is their results, recordings and jobs, and their messages in the outbox.
    """
    database, count = engine.database, 0
    while rows := await database.fetch(sql_for(database, _OF_OWNER), {"owner": owner}):
        for submission_id, message_id, payload in rows:
            if message_id is not None:
                await engine.purge(message_id)
            recording = msgspec.json.decode(payload, type=SubmissionPayload).audio_file
            if recording is not None:
                # First: without its row its owner is unknown.
                await asyncio.to_thread(files.delete, recording)
            async with database.transaction() as tx:
                which = {"id": submission_id}
                await engine.outbox.erase(tx.connection, [submission_id])
                await tx.fetch(sql_for(database, _DELETE_RESULTS), which)
                count += len(await tx.fetch(sql_for(database, _DELETE), which))
    return count
