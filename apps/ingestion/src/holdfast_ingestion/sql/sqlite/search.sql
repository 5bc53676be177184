-- fragment: documents
ingestion_documents

-- fragment: metadata
ingestion_metadata

-- fragment: chunks
ingestion_chunks

-- fragment: jobs
holdfast_job_states

-- name: list
SELECT {{columns}} FROM {{joined}}
WHERE documents.organisation = :organisation
    AND (:org_id IS NULL OR documents.org_id = :org_id)
    AND (:before IS NULL OR documents.id < :before)
    AND (:type IS NULL OR documents.type = :type)
    AND (:url IS NULL OR documents.url = :url)
    AND (
        :text IS NULL
        OR instr(
            lower(
                coalesce(documents.title, '') || ' ' || coalesce(documents.url, '') || ' '
                || coalesce(documents.filename, '')
            ),
            lower(:text)
        ) > 0
    )
    AND (:statuses IS NULL OR {{status}} IN (SELECT value FROM json_each(:statuses)))
    AND NOT EXISTS (
        SELECT 1 FROM json_each(:wanted) AS wanted
        WHERE NOT EXISTS (
            SELECT 1 FROM {{metadata}} AS metadata
            WHERE metadata.document = documents.id
                AND metadata.key || ':' || metadata.value IN (SELECT value FROM json_each(wanted.value))
        )
    )
ORDER BY documents.id DESC
LIMIT :limit

-- The best chunks for words that a person typed. `query` is the whole as a phrase or any of its words,
-- so a chunk with the sentence itself ranks above one with its words only; bm25 is smaller for better ones.
-- Words of the title count half: a passage that has them itself is the better one to show.
-- Only the best chunk of each document counts, however many a long document has.
-- name: search
WITH found AS MATERIALIZED (
    SELECT chunks.id AS chunk, chunks.document AS document, bm25(ingestion_words, 0.5) AS score
    FROM ingestion_words
    JOIN {{chunks}} AS chunks ON chunks.id = ingestion_words.rowid
    JOIN {{documents}} AS documents ON documents.id = chunks.document
    WHERE ingestion_words MATCH :query AND documents.organisation = :organisation
        AND (:org_id IS NULL OR documents.org_id = :org_id)
), best AS MATERIALIZED (
    SELECT chunk, score
    FROM (
        SELECT
            chunk, score, row_number() OVER (PARTITION BY document ORDER BY score, chunk) AS place
        FROM found
    )
    WHERE place = 1
    ORDER BY score, chunk
    LIMIT :limit
)
SELECT
    documents.id, documents.title, documents.url, documents.filename, documents.type, chunks.id,
    chunks.position, chunks.start_offset, chunks.end_offset,
    chunks.text, highlight(ingestion_words, 1, char(2), char(3))
FROM best
JOIN ingestion_words ON ingestion_words.rowid = best.chunk
JOIN {{chunks}} AS chunks ON chunks.id = best.chunk
JOIN {{documents}} AS documents ON documents.id = chunks.document
WHERE ingestion_words MATCH :query
ORDER BY best.score, best.chunk
