"""Delete the documents of an owner, wherever they stand."""

import asyncio

from holdfast import Engine
from holdfast.files import ArtifactStore
from holdfast_ingestion.job_values import job_id
from holdfast_ingestion.repository import Documents
from holdfast_ingestion.uploads import upload_name


async def erase_documents(engine: Engine, files: ArtifactStore, owner: str) -> int:
    """Delete what `owner` has added, with passages, files and jobs; return how many documents."""
    documents, count = Documents(engine.database), 0
    while found := await documents.of_owner(owner):
        for organisation, document_id in found:
            await engine.purge(job_id(document_id))
            # The file first: without its row its owner is unknown.
            await asyncio.to_thread(files.delete, upload_name(document_id))
            count += await documents.delete(organisation, document_id)
    return count
