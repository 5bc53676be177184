"""Facts about writes that the database itself refuses."""

from collections.abc import Mapping
from typing import Any

from holdfast.jobs.model import MOVES, Completed, Failed, JobStatus
from holdfast.testing.conformance.world import BROKEN, World, fact

_FIELDS: dict[JobStatus, dict[str, Any]] = {
    JobStatus.UPLOADED: {},
    JobStatus.QUEUED: {"ready_at": 9e9},
    JobStatus.PROCESSING: {
        "worker_id": "w",
        "lease_expires_at": 9e9,
        "token": 9,
        "attempt_count": 1,
    },
    JobStatus.COMPLETE: {"finished_at": 9e9, "result": "1"},
    JobStatus.FAILED: {
        "finished_at": 9e9,
        "error_code": "UNKNOWN",
        "error_message": "m",
        "error_group": "m",
    },
    JobStatus.CANCELLED: {"finished_at": 9e9},
}
_NOTHING: dict[str, Any] = {
    "worker_id": None,
    "lease_expires_at": None,
    "finished_at": None,
    "result": None,
    "error_code": None,
    "error_message": None,
    "error_group": None,
    "dead_letter": None,
}


async def _refused(world: World, job_id: str, columns: Mapping[str, Any]) -> bool:
    before = await world.job(job_id)
    try:
        await world.tables.set_columns(job_id, columns)
    except world.tables.violations:
        assert await world.job(job_id) == before
        return True
    return False


async def _in(world: World, status: JobStatus) -> str:
    """Bring a job to `status` by legal moves and return its id."""
    name = f"{status}-{world.now}"
    world.pass_time(1)
    if status is JobStatus.UPLOADED:
        await world.add(name, status=status)
        return name
    await world.add(name, queue=name)
    if status is JobStatus.QUEUED:
        return name
    if status is JobStatus.CANCELLED:
        await world.store.cancel(name, now=world.now)
        return name
    (claim,) = await world.claim(queues=[name])
    if status is JobStatus.COMPLETE:
        await world.finish(claim, Completed("1"))
    if status is JobStatus.FAILED:
        await world.finish(claim, Failed(BROKEN))
    return name


async def _moves(world: World, legal: bool) -> int:
    """Try every move that is (or is not) in the table, with columns that fit its target."""
    tried = 0
    for origin in JobStatus:
        for target in JobStatus:
            if origin is target or ((origin, target) in MOVES) is not legal:
                continue
            job_id = await _in(world, origin)
            columns = {
                "status": target,
                **_NOTHING,
                **_FIELDS[target],
                **({"ready": False} if target is not JobStatus.QUEUED else {}),
            }
            refused = await _refused(world, job_id, columns)
            assert refused is not legal, f"{origin} → {target}"
            if not refused:
                assert (await world.job(job_id)).status is target
            tried += 1
    return tried


@fact
async def the_database_refuses_every_illegal_move(world: World) -> None:
    assert await _moves(world, legal=False) == 30 - len(MOVES)


@fact
async def the_database_allows_every_legal_move(world: World) -> None:
    assert await _moves(world, legal=True) == len(MOVES)


@fact
async def a_status_that_does_not_exist_is_refused(world: World) -> None:
    job_id = await _in(world, JobStatus.QUEUED)
    assert await _refused(world, job_id, {"status": "paused"})


@fact
async def a_result_exists_only_when_complete(world: World) -> None:
    for status in set(JobStatus) - {JobStatus.COMPLETE}:
        job_id = await _in(world, status)
        assert await _refused(world, job_id, {"result": "1"}), status


@fact
async def an_error_exists_only_when_failed(world: World) -> None:
    error = {"error_code": "UNKNOWN", "error_message": "m", "error_group": "m"}
    for status in set(JobStatus) - {JobStatus.FAILED}:
        job_id = await _in(world, status)
        assert await _refused(world, job_id, error), status
        assert await _refused(world, job_id, {"dead_letter": "permanent"}), status
    job_id = await _in(world, JobStatus.FAILED)
    for column in error:
        assert await _refused(world, job_id, {column: None}), column


@fact
async def a_lease_exists_only_while_processing(world: World) -> None:
    for status in set(JobStatus) - {JobStatus.PROCESSING}:
        job_id = await _in(world, status)
        assert await _refused(world, job_id, {"worker_id": "w"}), status
        assert await _refused(world, job_id, {"lease_expires_at": 9e9}), status
    job_id = await _in(world, JobStatus.PROCESSING)
    assert await _refused(world, job_id, {"worker_id": None})
    assert await _refused(world, job_id, {"lease_expires_at": None})


@fact
async def a_job_is_ready_only_while_queued(world: World) -> None:
    for status in set(JobStatus) - {JobStatus.QUEUED}:
        job_id = await _in(world, status)
        assert await _refused(world, job_id, {"ready": True}), status


@fact
async def a_job_has_an_end_exactly_when_it_is_finished(world: World) -> None:
    for status in JobStatus:
        job_id = await _in(world, status)
        wrong = None if status.finished else 9e9
        assert await _refused(world, job_id, {"finished_at": wrong}), status


@fact
async def attempts_stay_within_their_bounds(world: World) -> None:
    job_id = await _in(world, JobStatus.QUEUED)
    for columns in ({"attempt_count": -1}, {"attempt_count": 4}, {"max_attempts": 0}):
        assert await _refused(world, job_id, columns)
    assert not await _refused(world, job_id, {"attempt_count": 3})


@fact
async def the_token_never_falls(world: World) -> None:
    job_id = await _in(world, JobStatus.FAILED)
    assert (await world.job(job_id)).token == 1
    assert await _refused(world, job_id, {"token": 0})
    assert not await _refused(world, job_id, {"token": 5})


@fact
async def progress_is_a_share(world: World) -> None:
    job_id = await _in(world, JobStatus.PROCESSING)
    for wrong in (-0.1, 1.1):
        assert await _refused(world, job_id, {"progress": wrong})
    assert not await _refused(world, job_id, {"progress": 1.0})
