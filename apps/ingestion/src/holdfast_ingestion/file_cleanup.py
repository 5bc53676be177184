"""Delete uploaded files that belong to no document."""

import asyncio
import logging

from holdfast.files import Artifact, ArtifactStore
from holdfast.http import ServerState
from holdfast_ingestion.repository import Documents

_log = logging.getLogger("holdfast.ingestion")
_EVERY = 300.0
"""Seconds between two rounds."""


async def clean_up_for_ever(files: ArtifactStore, state: ServerState) -> None:
    """Clean up now and from time to time, until cancelled."""
    while True:
        try:
            await sweep(files, Documents(state.engine.database))
        except Exception:
            # A database or disk that is unavailable now may be back in the next round.
            _log.exception("uploaded files could not be cleaned up")
        await state.clock.sleep_async(_EVERY)


async def sweep(files: ArtifactStore, documents: Documents) -> int:
    """Delete the files of documents that do not exist; return how many."""
    count = await asyncio.to_thread(files.sweep_drafts)
    for artifact in await asyncio.to_thread(_listed, files):
        # Asked before the document: the server that holds a file may not have stored its row yet.
        held = await asyncio.to_thread(files.is_held, artifact.name)
        if not held and not await documents.exists(artifact.name.partition("/")[2]):
            count += await asyncio.to_thread(files.delete, artifact.name)
    return count


def _listed(files: ArtifactStore) -> list[Artifact]:
    return list(files.list("documents"))
