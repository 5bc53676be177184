-- Chunks of a document that have no embedding of the model yet.
-- name: chunks_without_embedding
SELECT chunks.id, chunks.text
FROM {{chunks}} AS chunks
LEFT JOIN {{embeddings}} AS embeddings ON embeddings.chunk = chunks.id AND embeddings.model = :model
WHERE chunks.document = :document AND embeddings.chunk IS NULL
ORDER BY chunks.position
LIMIT :limit

-- The document may have been deleted or replaced since its texts were read.
-- name: add_embedding
INSERT INTO {{embeddings}} (chunk, model, vector)
SELECT chunks.id, CAST(:model AS text), {{given_vector}}
FROM {{chunks}} AS chunks
WHERE chunks.id = :chunk
{{unless_being_deleted}}
ON CONFLICT (chunk) DO UPDATE SET model = excluded.model, vector = excluded.vector

-- The first chunk without an embedding of each document, unless a job has it to do or has failed.
-- name: documents_without_embeddings
SELECT missing.document, missing.chunk FROM (
    SELECT chunks.document AS document, min(chunks.id) AS chunk
    FROM {{chunks}} AS chunks
    LEFT JOIN {{embeddings}} AS embeddings
        ON embeddings.chunk = chunks.id AND embeddings.model = :model
    WHERE embeddings.chunk IS NULL
    GROUP BY chunks.document
) AS missing
{{without_a_job}}

-- What a search shows of chunks that were found by meaning.
-- name: passages
SELECT
    documents.id, documents.title, documents.url, documents.filename, documents.type, chunks.id,
    chunks.position, chunks.start_offset, chunks.end_offset, chunks.text
FROM {{chunks}} AS chunks
JOIN {{documents}} AS documents ON documents.id = chunks.document
WHERE chunks.id IN ({{listed_chunks}}) AND documents.organisation = :organisation
