"""How many bytes the submissions of an owner take."""

import asyncio
from collections.abc import AsyncGenerator, Iterable

import msgspec

from holdfast import Engine
from holdfast.files import ArtifactStore
from holdfast_grading.messages import SubmissionPayload
from holdfast_grading.tables import sql_for

_PAGE = """
    SELECT id, payload FROM {submissions}
    WHERE owner = :owner AND id > :after ORDER BY id LIMIT 500
"""


async def stored_bytes(
    engine: Engine, files: ArtifactStore, owner: str
) -> AsyncGenerator[int, None]:
    """Yield the bytes of what `owner` has handed in, for 500 texts and recordings each."""
    database, after = engine.database, ""
    query = sql_for(database, _PAGE)
    while rows := await database.fetch(query, {"owner": owner, "after": after}):
        yield await asyncio.to_thread(_sizes, files, [payload for _, payload in rows])
        after = rows[-1][0]


def _sizes(files: ArtifactStore, payloads: Iterable[str]) -> int:
    total = 0
    for payload in payloads:
        handed_in = msgspec.json.decode(payload, type=SubmissionPayload)
        total += size_of(handed_in)
        found = files.find(handed_in.audio_file) if handed_in.audio_file is not None else None
        total += 0 if found is None else found.size
    return total


def size_of(payload: SubmissionPayload) -> int:
    """Return the bytes of a text that was handed in; 0 for a recording."""
    return len((payload.text or "").encode("utf-8", "replace"))
