"""Alive, and ready: the store answers and a worker claims."""

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from holdfast.http.schemas import ERROR_ANSWERS
from holdfast.http.served_app import ServerState, state_of
from holdfast.jobs.store_port import StoreError

_PATIENCE = 2.0
"""Seconds that the store may take to answer."""

_NOT_READY = {
    "description": "Jobs are not accepted or not run",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["status", "missing"],
                "properties": {
                    "status": {"type": "string"},
                    "missing": {"type": "array", "items": {"type": "string"}},
                },
            }
        }
    },
}

router = APIRouter(tags=["health"], responses=ERROR_ANSWERS)


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz")
async def alive() -> dict[str, str]:
    """Answer that the process is alive."""
    return {"status": "ok"}


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", responses={503: _NOT_READY})
async def ready(request: Request) -> JSONResponse:
    """Answer whether jobs are accepted and run."""
    state = state_of(request)
    missing = [line for check in state.settings.ready if (line := check()) is not None]
    try:
        async with asyncio.timeout(_PATIENCE):
            await state.engine.store.ping()
            if state.settings.worker_elsewhere and not await _a_worker_claims(state):
                missing.append("no worker runs")
    except (StoreError, TimeoutError):
        missing.append("the database does not answer")
    status = "ok" if not missing else "not ready"
    return JSONResponse({"status": status, "missing": missing}, 503 if missing else 200)


async def _a_worker_claims(state: ServerState) -> bool:
    """Say whether a worker of any process is alive and was not asked to finish."""
    workers = await state.engine.workers.list()
    return any(worker.finish_requested_at is None for worker in workers)
