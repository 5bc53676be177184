"""Delete uploaded files that belong to no document."""

import logging

from holdfast.files import ArtifactStore, delete_unreferenced
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
    return await delete_unreferenced(files, "documents", documents.exists)
