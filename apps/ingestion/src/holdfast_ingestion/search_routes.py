"""The route of searches."""

from collections.abc import Callable
from typing import Annotated, Self

from fastapi import APIRouter, Query

from holdfast.http import Caller
from holdfast_ingestion.document_routes import OrgId, storable
from holdfast_ingestion.schemas import Model
from holdfast_ingestion.search import Mode, Search
from holdfast_ingestion.word_search import Hit, Scope


class HitOut(Model):
    """The best passage of one document; `highlights` are places in `passage`."""

    document_id: str
    title: str | None
    url: str | None
    filename: str | None
    type: str
    position: int
    start: int
    end: int
    passage: str
    highlights: list[tuple[int, int]]
    score: float

    @classmethod
    def of(cls, hit: Hit) -> Self:
        """Return `hit` for the wire."""
        return cls(**{name: getattr(hit, name) for name in cls.model_fields})


class SearchOut(Model):
    """The best documents for a search, best first.

    `mode` is what the search went by; `degraded` says that this is less than was asked for, because
    the meaning of the query could not be found in time.
    """

    mode: Mode
    degraded: bool
    hits: list[HitOut]


def search_routes(search: Callable[[], Search]) -> APIRouter:
    """Return the route; `search` returns what finds passages."""
    router = APIRouter()

    async def find(
        caller: Caller,
        q: str = "",
        org_id: OrgId = None,
        mode: Mode | None = None,
        limit: Annotated[int, Query(ge=1, le=50)] = 10,
    ) -> SearchOut:
        """Find passages: by words, by meaning (`semantic`) or by both (`hybrid`, the default)."""
        scope = Scope(caller.organisation, storable(org_id))
        answer = await search().find(scope, q, limit, mode)
        hits = [HitOut.of(hit) for hit in answer.hits]
        return SearchOut(mode=answer.mode, degraded=answer.degraded, hits=hits)

    router.add_api_route("/search", find, methods=["GET"], name="search")
    return router
