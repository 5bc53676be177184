-- fragment: embeddings
ingestion_embeddings

-- fragment: given_vector
:vector

-- There is one writer at a time.
-- fragment: unless_being_deleted

-- fragment: listed_chunks
SELECT value FROM json_each(:chunks)

-- A part of an organisation's embeddings, in the order of documents and positions.
-- name: embeddings_after
SELECT documents.id, chunks.position, chunks.id, embeddings.vector
FROM {{documents}} AS documents
JOIN {{chunks}} AS chunks ON chunks.document = documents.id
JOIN {{embeddings}} AS embeddings ON embeddings.chunk = chunks.id AND embeddings.model = :model
WHERE documents.organisation = :organisation
    AND (:org_id IS NULL OR documents.org_id = :org_id)
    AND documents.id >= :document
    AND (documents.id > :document OR chunks.position > :position)
ORDER BY documents.id, chunks.position
LIMIT :limit
