"""How many bytes the files of an owner take."""

import asyncio
from collections.abc import AsyncGenerator, Iterable

from holdfast import Engine, Job, JobFilter
from holdfast.files import ArtifactStore
from holdfast_conversion.file_names import pdf_name, result_name

_PAGE = 500


async def stored_bytes(
    engine: Engine, files: ArtifactStore, kind: str, owner: str
) -> AsyncGenerator[int, None]:
    """Yield the bytes of the PDFs and XMLs of the owner's jobs of one kind, for 500 jobs each."""
    cursor = None
    while True:
        where = JobFilter(owner=owner, kinds=(kind,))
        page = await engine.list(where, cursor=cursor, limit=_PAGE)
        yield await asyncio.to_thread(_sizes, files, page.jobs)
        cursor = page.next_cursor
        if cursor is None:
            return


def _sizes(files: ArtifactStore, jobs: Iterable[Job]) -> int:
    names = (name for job in jobs for name in (pdf_name(job.id), result_name(job.result)) if name)
    return sum(found.size for name in names if (found := files.find(name)) is not None)
