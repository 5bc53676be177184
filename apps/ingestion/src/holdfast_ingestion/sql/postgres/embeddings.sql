-- fragment: embeddings
ingestion.embeddings

-- fragment: given_vector
CAST(:vector AS real[])

-- Wait for a transaction that deletes the chunk, and then find nothing.
-- fragment: unless_being_deleted
FOR KEY SHARE

-- fragment: listed_chunks
SELECT CAST(value AS bigint) FROM json_array_elements_text(CAST(:chunks AS json))

-- name: has_pgvector
SELECT to_regtype('vector') IS NOT NULL

-- fragment: of_the_scope
FROM {{embeddings}} AS embeddings
JOIN {{chunks}} AS chunks ON chunks.id = embeddings.chunk
JOIN {{documents}} AS documents ON documents.id = chunks.document
WHERE documents.organisation = :organisation AND embeddings.model = :model
    AND (CAST(:org_id AS text) IS NULL OR documents.org_id = CAST(:org_id AS text))

-- The chunk of each document that is nearest to a vector, with pgvector: exact, without an index.
-- name: nearest
SELECT chunk, similarity FROM (
    SELECT DISTINCT ON (chunks.document)
        embeddings.chunk,
        1 - (embeddings.vector::vector <=> CAST(:vector AS real[])::vector) AS similarity
    {{of_the_scope}}
    ORDER BY chunks.document, similarity DESC, embeddings.chunk
) AS best
ORDER BY similarity DESC, chunk
LIMIT :limit

-- The same in SQL alone: the vectors have the length 1.
-- name: nearest_without_pgvector
SELECT chunk, similarity FROM (
    SELECT DISTINCT ON (chunks.document)
        embeddings.chunk,
        (
            SELECT sum(stored * asked)
            FROM unnest(embeddings.vector, CAST(:vector AS real[])) AS pairs (stored, asked)
        )::double precision AS similarity
    {{of_the_scope}}
    ORDER BY chunks.document, similarity DESC, embeddings.chunk
) AS best
ORDER BY similarity DESC, chunk
LIMIT :limit
