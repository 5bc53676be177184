"""The pages of concepts: the knowledge graph as a picture and as a table, and one concept."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response

from holdfast import ErrorCode
from holdfast.http import ApiError, AppPages, Caller
from holdfast_ingestion.graph.drawing import graph_svg
from holdfast_ingestion.graph.repository import Concept, KnowledgeGraph, Part
from holdfast_ingestion.pages.document_rows import name_of, origin_of
from holdfast_ingestion.word_search import Scope

MOST_DRAWN = 30
"""Concepts of one picture: more cannot be read."""
MOST_RELATIONS = 30
"""Relations of one table."""
MOST_LISTED = 100
"""Documents of one concept that are shown."""


@dataclass(frozen=True, slots=True)
class RelationLine:
    """A relation, with its ends by name."""

    subject: Concept
    label: str
    object: Concept
    documents: int


class ConceptPages:
    """Show what documents speak of.

    Args:
        pages: renders.
        graph: returns the graph in the server's database.
        source: what extracts concepts.
    """

    def __init__(self, pages: AppPages, graph: Callable[[], KnowledgeGraph], source: str) -> None:
        self._pages = pages
        self._graph = graph
        self._source = source

    async def overview(self, request: Request, caller: Caller) -> Response:
        """Show the concepts of most documents."""
        part = await self._graph().overview(Scope(caller.organisation), MOST_DRAWN)
        return self._answer(request, "concepts.html", part, "What your documents speak of")

    async def show(self, request: Request, caller: Caller, concept_id: str) -> Response:
        """Show a concept, what it is related to, and where it is mentioned."""
        graph, scope = self._graph(), Scope(caller.organisation)
        concept = await graph.concept(scope, concept_id.replace("\0", ""))
        if concept is None:
            raise ApiError(ErrorCode.FORBIDDEN, "There is no such concept, or it is not yours.")
        part = await graph.around(scope, concept, MOST_DRAWN)
        found = await graph.documents_of(scope, concept.id, MOST_LISTED)
        documents = [
            (each.id, name_of(each.title, each.filename, each.url),
             origin_of(each.url, each.filename, "text"), each.mentions)
            for each in found
        ]  # fmt: skip
        title = f"{concept.name} and what it is related to"
        return self._answer(
            request, "concept.html", part, title, concept=concept, documents=documents
        )

    def _answer(
        self, request: Request, template: str, part: Part, title: str, **values: Any
    ) -> Response:
        return self._pages.answer(
            request,
            template,
            concepts=part.concepts,
            relations=list(_lines(part))[:MOST_RELATIONS],
            relation_count=len(part.relations),
            picture=graph_svg(part.concepts, part.relations, title=title),
            source=self._source,
            **values,
        )


def _lines(part: Part) -> Iterable[RelationLine]:
    known = {each.id: each for each in part.concepts}
    for each in part.relations:
        if {each.subject, each.object} <= known.keys():
            ends = known[each.subject], known[each.object]
            yield RelationLine(ends[0], each.label, ends[1], each.documents)


def concept_pages(pages: AppPages, graph: Callable[[], KnowledgeGraph], source: str) -> APIRouter:
    """Return the routes of the pages; see `ConceptPages`."""
    own, router = ConceptPages(pages, graph, source), APIRouter()
    router.add_api_route("/concepts", own.overview, methods=["GET", "HEAD"])
    router.add_api_route("/concepts/{concept_id}", own.show, methods=["GET"])
    return router
