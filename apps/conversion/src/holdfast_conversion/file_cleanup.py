"""Delete files that have expired, and files that belong to no job."""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import AsyncIterator

from holdfast import Job, JobStatus
from holdfast.files import Artifact, ArtifactStore
from holdfast.http import ServerState
from holdfast_conversion.file_names import has_expired, job_of, pdf_name, result_name

_log = logging.getLogger("holdfast.conversion")
_EVERY = 60.0
"""Seconds between two rounds, or a tenth of the time that files are kept where that is less."""
_SHORTEST = 0.2
_SETTLED = 300.0
"""Age in seconds at which a result is looked at once: its job may have been removed while an
attempt was publishing it, and then neither the removal nor the job's result knows of it."""


@contextlib.asynccontextmanager
async def cleaning_up(files: ArtifactStore, state: ServerState, ttl: float) -> AsyncIterator[None]:
    """Clean up at the start and from time to time while the block runs."""
    await asyncio.to_thread(files.prepare)
    task = asyncio.create_task(_clean_up_for_ever(files, state, ttl))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _clean_up_for_ever(files: ArtifactStore, state: ServerState, ttl: float) -> None:
    since: float | None = None
    while True:
        now = state.clock.wall()
        try:
            await sweep(files, state, ttl, since=since)
            since = now
        except Exception:
            # A database or disk that is unavailable now may be back in the next round.
            _log.exception("files could not be cleaned up")
        await state.clock.sleep_async(max(_SHORTEST, min(_EVERY, ttl / 10)))


async def sweep(
    files: ArtifactStore, state: ServerState, ttl: float, *, since: float | None = None
) -> int:
    """Delete what is not needed any more; return how many files.

    Args:
        since: when it was done before, in epoch seconds: then only old files, those of jobs with
            more than one result, and results that became five minutes old since are looked at.
    """
    count = await asyncio.to_thread(files.sweep_drafts)
    now = state.clock.wall()
    for folder in ("uploads", "results"):
        by_job: defaultdict[str, list[Artifact]] = defaultdict(list)
        for artifact in await asyncio.to_thread(_listed, files, folder):
            by_job[job_of(artifact.name)].append(artifact)
        for job_id, found in by_job.items():
            if since is None or _is_looked_at(found, now, ttl, since):
                count += await _sweep_job(files, state, ttl, job_id, found)
    return count


def _is_looked_at(found: list[Artifact], now: float, ttl: float, since: float) -> bool:
    """Say whether one of a job's files may be no longer needed."""
    age = now - found[0].modified_at
    has_settled = 0 <= age - _SETTLED < now - since
    return len(found) > 1 or age >= ttl or (has_settled and found[0].name.startswith("results/"))


def _listed(files: ArtifactStore, folder: str) -> list[Artifact]:
    return list(files.list(folder))


async def _sweep_job(
    files: ArtifactStore, state: ServerState, ttl: float, job_id: str, found: list[Artifact]
) -> int:
    # Asked before the job: the process that holds a file may not have stored its job yet.
    held = [await asyncio.to_thread(files.is_held, each.name) for each in found]
    job = await state.engine.get(job_id)
    count = 0
    for artifact, is_held in zip(found, held, strict=True):
        if not is_held and not _is_needed(job, artifact.name, state.clock.wall(), ttl):
            count += await asyncio.to_thread(files.delete, artifact.name)
    return count


def _is_needed(job: Job | None, name: str, now: float, ttl: float) -> bool:
    if job is None:
        return False
    if not job.status.finished:
        return True
    if has_expired(job, now, ttl):
        return False
    if job.status is JobStatus.COMPLETE:
        return name == result_name(job.result)
    return job.status is JobStatus.FAILED and name == pdf_name(job.id)


def delete_files(files: ArtifactStore, job_id: str, result: str | None) -> None:
    """Delete the files of a job that retention has deleted; `result` is the job's."""
    files.delete(pdf_name(job_id))
    name = result_name(result)
    if name is not None:
        files.delete(name)
