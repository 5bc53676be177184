"""The routes of concepts."""

import re
from collections.abc import Callable
from typing import Annotated, Self

from fastapi import APIRouter, Query

from holdfast import ErrorCode
from holdfast.http import ApiError, Caller
from holdfast_ingestion.document_routes import OrgId, storable
from holdfast_ingestion.graph.repository import (
    Concept,
    ConceptRelation,
    KnowledgeGraph,
    MentioningDocument,
    Place,
)
from holdfast_ingestion.schemas import Model
from holdfast_ingestion.word_search import Scope

_MOST_LISTED = 100
"""Relations and documents of one concept that are shown."""
_CURSOR = re.compile(r"([0-9]{1,9})-([0-9a-f]{24})")


class ConceptOut(Model):
    """A concept, and how many documents and passages mention it."""

    id: str
    name: str
    documents: int
    mentions: int
    sources: list[str]

    @classmethod
    def of(cls, concept: Concept) -> Self:
        """Return `concept` for the wire."""
        return cls(**{name: getattr(concept, name) for name in cls.model_fields})


class ConceptsOut(Model):
    """Concepts, those of most documents first.

    `source` is what extracts them: `chatmock`, a language model, or `key-phrases`, a local library.
    """

    source: str
    concepts: list[ConceptOut]
    next_cursor: str | None


class EndOut(Model):
    """One end of a relation."""

    id: str
    name: str


class RelationOut(Model):
    """What `subject` is or does to `object`; so many documents state it."""

    subject: EndOut
    label: str
    object: EndOut
    documents: int


class MentioningDocumentOut(Model):
    """A document that mentions a concept in so many of its passages."""

    id: str
    title: str | None
    url: str | None
    filename: str | None
    mentions: int

    @classmethod
    def of(cls, document: MentioningDocument) -> Self:
        """Return `document` for the wire."""
        return cls(**{name: getattr(document, name) for name in cls.model_fields})


class ConceptDetailsOut(Model):
    """A concept with its relations and the documents that mention it, the first 100 of each."""

    source: str
    concept: ConceptOut
    relations: list[RelationOut]
    documents: list[MentioningDocumentOut]


class ConceptApi:
    """Answer requests about concepts.

    Args:
        graph: returns the graph in the server's database.
        source: what extracts concepts.
    """

    def __init__(self, graph: Callable[[], KnowledgeGraph], source: str) -> None:
        self._graph = graph
        self._source = source

    async def list_concepts(
        self,
        caller: Caller,
        q: Annotated[str, Query(max_length=200)] = "",
        org_id: OrgId = None,
        cursor: Annotated[str | None, Query(max_length=40)] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> ConceptsOut:
        """List what the organisation's documents speak of."""
        storable(q)
        after = _place(cursor) if cursor else None
        found = await self._graph().concepts(
            _scope(caller.organisation, org_id), q, after=after, limit=limit + 1
        )
        page, last = found[:limit], found[limit - 1 : limit]
        is_more = len(found) > limit
        return ConceptsOut(
            source=self._source,
            concepts=[ConceptOut.of(each) for each in page],
            next_cursor=f"{last[0].documents}-{last[0].id}" if is_more else None,
        )

    async def show(
        self, caller: Caller, concept_id: str, org_id: OrgId = None
    ) -> ConceptDetailsOut:
        """Show a concept, what it is related to, and where it is mentioned."""
        graph, scope = self._graph(), _scope(caller.organisation, org_id)
        concept = await graph.concept(scope, storable(concept_id) or "")
        if concept is None:
            raise ApiError(ErrorCode.FORBIDDEN, "There is no such concept, or it is not yours.")
        relations = await graph.relations_of(scope, concept.id, _MOST_LISTED)
        names = await self._names(graph, scope, relations)
        documents = await graph.documents_of(scope, concept.id, _MOST_LISTED)
        return ConceptDetailsOut(
            source=self._source,
            concept=ConceptOut.of(concept),
            relations=[_relation(each, names) for each in relations],
            documents=[MentioningDocumentOut.of(each) for each in documents],
        )

    async def _names(
        self, graph: KnowledgeGraph, scope: Scope, relations: list[ConceptRelation]
    ) -> dict[str, str]:
        ids = {end for each in relations for end in (each.subject, each.object)}
        found = await graph.concepts_by_id(scope, sorted(ids))
        return {each.id: each.name for each in found}


def concept_routes(graph: Callable[[], KnowledgeGraph], source: str) -> APIRouter:
    """Return the routes; see `ConceptApi`."""
    api, router = ConceptApi(graph, source), APIRouter()
    router.add_api_route("/concepts", api.list_concepts, methods=["GET"])
    router.add_api_route("/concepts/{concept_id}", api.show, methods=["GET"], name="show_concept")
    return router


def _scope(organisation: str, org_id: str | None) -> Scope:
    return Scope(organisation, storable(org_id))


def _place(cursor: str) -> Place:
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise ApiError(ErrorCode.VALIDATION_ERROR, "There is no such cursor.")
    return Place(int(match[1]), match[2])


def _relation(relation: ConceptRelation, names: dict[str, str]) -> RelationOut:
    subject, target = (
        EndOut(id=each, name=names.get(each, "")) for each in (relation.subject, relation.object)
    )
    return RelationOut(
        subject=subject, label=relation.label, object=target, documents=relation.documents
    )
