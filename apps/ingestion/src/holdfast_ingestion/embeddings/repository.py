"""The embeddings in the database, and the chunks that are nearest to one.

Searches are exact: every embedding in the scope is compared. PostgreSQL does that itself, with
pgvector where it is there. SQLite has no function for it that is not an extension, and those are
loaded into connections one by one; so the vectors are read in parts and compared here.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast import Database, DatabaseTransaction
from holdfast_ingestion.embeddings.vectors import (
    Similar,
    Vector,
    most_similar,
    similarities,
    to_bytes,
)
from holdfast_ingestion.queries import load_queries
from holdfast_ingestion.word_search import Hit, Scope

_PART = 2000
"""Vectors that are read at once, about 6 MB."""


class Embeddings:
    """The embeddings of one model.

    Args:
        database: where they are.
        model: the name of the model.
    """

    def __init__(self, database: Database, model: str) -> None:
        self._database = database
        self._queries = load_queries(database.dialect)
        self._model = model

    async def missing(self, document_id: str, limit: int) -> list[tuple[int, str]]:
        """Return the first chunks of a document that have none: their ids and texts."""
        values = {"model": self._model, "document": document_id, "limit": limit}
        rows = await self._database.fetch(self._queries["chunks_without_embedding"], values)
        return [(chunk, text) for chunk, text in rows]

    async def add(self, tx: DatabaseTransaction, vectors: Mapping[int, Vector]) -> None:
        """Store the vectors of chunks, by the chunks' ids; of those that are gone, nothing."""
        stored = to_bytes if self._database.dialect == "sqlite" else list
        rows = [
            {"chunk": chunk, "model": self._model, "vector": stored(vector)}
            for chunk, vector in vectors.items()
        ]
        await tx.execute_many(self._queries["add_embedding"], rows)

    async def unfinished(self, job_prefix: str, limit: int) -> list[tuple[str, int]]:
        """Return documents that lack some, each with the first chunk that has none.

        Left out are those with a job that has it to do, or has failed and is still kept.
        """
        values = {"model": self._model, "job_prefix": job_prefix, "limit": limit}
        rows = await self._database.fetch(self._queries["documents_without_embeddings"], values)
        return [(document, chunk) for document, chunk in rows]

    async def search(self, scope: Scope, vector: Vector, limit: int) -> list[Hit]:
        """Return the passages that are nearest to `vector`, at most one of each document."""
        nearest = await self._nearest(scope, vector, limit)
        passages = await self._passages(scope, [chunk for _, chunk in nearest])
        return [
            Hit(*(*passages[chunk], (), similarity))
            for similarity, chunk in nearest
            if chunk in passages  # it may have been deleted meanwhile
        ]

    async def _nearest(self, scope: Scope, vector: Vector, limit: int) -> list[tuple[float, int]]:
        """Return the nearest chunk of each document: how similar it is, and its id."""
        values: dict[str, Any] = {
            "organisation": scope.organisation,
            "org_id": scope.org_id,
            "model": self._model,
            "limit": limit,
        }
        if self._database.dialect == "sqlite":
            return [each[:2] for each in await self._compared(values, vector)]
        ((has_pgvector,),) = await self._database.fetch(self._queries["has_pgvector"])
        name = "nearest" if has_pgvector else "nearest_without_pgvector"
        rows = await self._database.fetch(self._queries[name], {**values, "vector": vector})
        return [(similarity, chunk) for chunk, similarity in rows]

    async def _compared(self, values: Mapping[str, Any], vector: Vector) -> list[Similar]:
        best: list[Similar] = []
        document, position = "", -1
        while True:
            after = {**values, "document": document, "position": position, "limit": _PART}
            rows = await self._database.fetch(self._queries["embeddings_after"], after)
            part = [(document, chunk, stored) for document, _, chunk, stored in rows]
            found = await asyncio.to_thread(similarities, vector, part)
            best = most_similar((best, found), values["limit"])
            if len(rows) < _PART:
                return best
            document, position = rows[-1][:2]

    async def _passages(self, scope: Scope, chunks: Sequence[int]) -> dict[int, tuple[Any, ...]]:
        values = {"organisation": scope.organisation, "chunks": json.dumps(list(chunks))}
        rows = await self._database.fetch(self._queries["passages"], values)
        return {row[5]: row for row in rows}
