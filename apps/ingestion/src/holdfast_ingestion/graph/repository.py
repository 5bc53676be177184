"""The knowledge graph in the database: written chunk by chunk, read concept by concept."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast import Database, DatabaseTransaction
from holdfast_ingestion.graph.concept_names import normalised
from holdfast_ingestion.graph.extracted import PassageConcepts
from holdfast_ingestion.queries import load_queries
from holdfast_ingestion.word_search import Scope

_MOST_DRAWN = 200
"""Relations of a part of the graph."""


@dataclass(frozen=True, slots=True)
class Concept:
    """What documents of an organisation speak of.

    Args:
        id: the same in every document.
        name: one of the spellings that they use.
        documents: how many mention it.
        mentions: in how many chunks.
        sources: what has extracted it: a language model, a local library, or both.
    """

    id: str
    name: str
    documents: int
    mentions: int
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConceptRelation:
    """What one concept is or does to another; `documents` says how many state it."""

    subject: str
    label: str
    object: str
    documents: int


@dataclass(frozen=True, slots=True)
class MentioningDocument:
    """A document that mentions a concept, in so many of its chunks."""

    id: str
    title: str | None
    url: str | None
    filename: str | None
    mentions: int


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the graph, to be drawn: some concepts, and the relations between them."""

    concepts: list[Concept]
    relations: list[ConceptRelation]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page of concepts ends: after the one with this id and number of documents."""

    documents: int
    id: str


class ChunkGraphs:
    """What was extracted of chunks by one source; implements `Results`."""

    def __init__(self, database: Database, source: str) -> None:
        self._database = database
        self._queries = load_queries(database.dialect)
        self._source = source

    async def missing(self, document_id: str, limit: int) -> list[tuple[int, str]]:
        """Return the first chunks of a document of which nothing was extracted by the source."""
        values = {"source": self._source, "document": document_id, "limit": limit}
        rows = await self._database.fetch(self._queries["chunks_without_extraction"], values)
        return [(chunk, text) for chunk, text in rows]

    async def unfinished(self, job_prefix: str, limit: int) -> list[tuple[str, int]]:
        """Return documents with such chunks and without a job, each with the first of them."""
        values = {"source": self._source, "job_prefix": job_prefix, "limit": limit}
        rows = await self._database.fetch(self._queries["documents_without_extraction"], values)
        return [(document, chunk) for document, chunk in rows]

    async def add(self, tx: DatabaseTransaction, found: Mapping[int, PassageConcepts]) -> None:
        """Store what was extracted, in place of what another source did."""
        for chunk, extracted in found.items():
            own = {"chunk": chunk, "source": self._source}
            await tx.fetch(self._queries["forget_extraction"], {"chunk": chunk})
            if not await tx.fetch(self._queries["add_extraction"], own):
                continue  # deleted or replaced meanwhile
            mentions = [
                {**own, "concept": each.concept, "normalised": each.normalised, "name": each.name}
                for each in extracted.mentions
            ]
            await tx.execute_many(self._queries["add_mention"], mentions)
            relations = [
                {"chunk": chunk, "subject": each.subject, "object": each.object,
                 "label": each.label}
                for each in extracted.relations
            ]  # fmt: skip
            await tx.execute_many(self._queries["add_relation"], relations)


class KnowledgeGraph:
    """The concepts of organisations."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queries = load_queries(database.dialect)

    async def concepts(
        self, scope: Scope, query: str, *, after: Place | None, limit: int
    ) -> list[Concept]:
        """Return concepts whose name has `query` in it, those of most documents first."""
        values = {
            **_scope(scope),
            "query": normalised(query),
            "after_documents": None if after is None else after.documents,
            "after": None if after is None else after.id,
            "limit": limit,
        }
        return [_concept(row) for row in await self._fetch("concepts", values)]

    async def concepts_by_id(self, scope: Scope, ids: Sequence[str]) -> list[Concept]:
        """Return the concepts with these ids that there are, those of most documents first."""
        values = {**_scope(scope), "ids": json.dumps(list(ids))}
        return [_concept(row) for row in await self._fetch("concepts_by_id", values)]

    async def concept(self, scope: Scope, concept_id: str) -> Concept | None:
        """Return a concept; None where no document mentions it."""
        found = await self.concepts_by_id(scope, [concept_id])
        return found[0] if found else None

    async def relations_of(
        self, scope: Scope, concept_id: str, limit: int
    ) -> list[ConceptRelation]:
        """Return the relations of a concept, those that most documents state first."""
        values = {**_scope(scope), "concept": concept_id, "limit": limit}
        return [ConceptRelation(*row) for row in await self._fetch("relations_of", values)]

    async def relations_among(
        self, scope: Scope, ids: Sequence[str], limit: int
    ) -> list[ConceptRelation]:
        """Return the relations between any two of these concepts."""
        values = {**_scope(scope), "ids": json.dumps(list(ids)), "limit": limit}
        return [ConceptRelation(*row) for row in await self._fetch("relations_among", values)]

    async def documents_of(
        self, scope: Scope, concept_id: str, limit: int
    ) -> list[MentioningDocument]:
        """Return documents that mention a concept, those with most mentions first."""
        values = {**_scope(scope), "concept": concept_id, "limit": limit}
        return [MentioningDocument(*row) for row in await self._fetch("documents_of", values)]

    async def around(self, scope: Scope, concept: Concept, limit: int) -> Part:
        """Return a concept with at most `limit` of those that it is related to."""
        relations = await self.relations_of(scope, concept.id, 4 * limit)
        ends = (end for each in relations for end in (each.subject, each.object))
        ids = list(dict.fromkeys([concept.id, *ends]))[: limit + 1]
        return await self._part(scope, await self.concepts_by_id(scope, ids))

    async def overview(self, scope: Scope, limit: int) -> Part:
        """Return the concepts of most documents."""
        return await self._part(scope, await self.concepts(scope, "", after=None, limit=limit))

    async def _part(self, scope: Scope, concepts: list[Concept]) -> Part:
        ids = [each.id for each in concepts]
        return Part(concepts, await self.relations_among(scope, ids, _MOST_DRAWN))

    async def _fetch(self, name: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return await self._database.fetch(self._queries[name], values)


def _scope(scope: Scope) -> dict[str, Any]:
    return {"organisation": scope.organisation, "org_id": scope.org_id}


def _concept(row: tuple[Any, ...]) -> Concept:
    return Concept(*(*row[:4], tuple(sorted(set(row[4:])))))
