"""Delete files that no row names: of calls that were refused or died after they had stored one."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.files.artifacts import Artifact, ArtifactStore


async def delete_unreferenced(
    files: ArtifactStore, folder: str, is_referenced: Callable[[str], Awaitable[bool]]
) -> int:
    """Delete the files of `folder` that no row names, and abandoned drafts; return how many.

    Args:
        files: the store of the files.
        folder: of its files each has a name of its own.
        is_referenced: says whether a row names the file `folder/name`, given `name`. Files whose
            draft is open are left alone: their rows may be about to be stored.
    """
    count = await asyncio.to_thread(files.sweep_drafts)
    for artifact in await asyncio.to_thread(_listed, files, folder):
        # Asked before the row, which is stored while the draft is open.
        held = await asyncio.to_thread(files.is_held, artifact.name)
        if not held and not await is_referenced(artifact.name.partition("/")[2]):
            count += await asyncio.to_thread(files.delete, artifact.name)
    return count


def _listed(files: ArtifactStore, folder: str) -> list[Artifact]:
    return list(files.list(folder))
