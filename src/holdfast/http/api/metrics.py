"""The metrics of the store and of this process, as Prometheus reads them."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from holdfast.http.schemas import ERROR_ANSWERS
from holdfast.http.served_app import state_of

_TYPE = "text/plain; version=0.0.4; charset=utf-8"

router = APIRouter(tags=["health"], responses=ERROR_ANSWERS)


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"description": "Samples.", "content": {"text/plain": {}}}},
)
async def metrics(request: Request) -> Response:
    """Return the store's counters, the state of every breaker, and what this process counts."""
    source = state_of(request).metrics
    assert source is not None
    return Response(await source(), media_type=_TYPE)
