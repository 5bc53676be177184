-- fragment: documents
ingestion.documents

-- fragment: metadata
ingestion.metadata

-- fragment: chunks
ingestion.chunks

-- fragment: jobs
holdfast.job_states

-- name: list
SELECT {{columns}} FROM {{joined}}
WHERE documents.organisation = :organisation
    AND (CAST(:org_id AS text) IS NULL OR documents.org_id = CAST(:org_id AS text))
    AND (CAST(:before AS text) IS NULL OR documents.id < CAST(:before AS text))
    AND (CAST(:type AS text) IS NULL OR documents.type = CAST(:type AS text))
    AND (CAST(:url AS text) IS NULL OR documents.url = CAST(:url AS text))
    AND (
        CAST(:text AS text) IS NULL
        OR strpos(
            lower(concat_ws(' ', documents.title, documents.url, documents.filename)),
            lower(CAST(:text AS text))
        ) > 0
    )
    AND (
        CAST(:statuses AS text) IS NULL
        OR {{status}} IN (SELECT json_array_elements_text(CAST(:statuses AS json)))
    )
    AND NOT EXISTS (
        SELECT 1 FROM json_array_elements(CAST(:wanted AS json)) AS wanted
        WHERE NOT EXISTS (
            SELECT 1 FROM {{metadata}} AS metadata
            WHERE metadata.document = documents.id
                AND metadata.key || ':' || metadata.value
                    IN (SELECT json_array_elements_text(wanted.value))
        )
    )
ORDER BY documents.id DESC
LIMIT :limit

-- The best chunks for words that a person typed. `query` has words and spaces only, `telling` those of
-- them that are not common English words. A chunk that has them as a phrase ranks above one that has all
-- of them, and that above one that has some. ts_rank counts the matching words; a title word counts half.
-- Marking words is slow, so only the best chunk of each document is marked.
-- name: search
WITH asked AS (
    SELECT
        phraseto_tsquery('ingestion.words', :query) AS phrase,
        plainto_tsquery('ingestion.words', :query) AS every,
        replace(CAST(plainto_tsquery('ingestion.words', :telling) AS text), ' & ', ' | ')
            ::tsquery AS some
), found AS (
    SELECT DISTINCT ON (chunks.document)
        chunks.id, chunks.document, chunks.position, chunks.start_offset, chunks.end_offset,
        chunks.text,
        CAST(chunks.words @@ asked.phrase AS integer) + CAST(chunks.words @@ asked.every AS integer)
            + ts_rank('{0.1, 0.05, 0.4, 1}', chunks.words, asked.some, 33) AS score
    FROM asked
    JOIN {{chunks}} AS chunks ON chunks.words @@ asked.some
    JOIN {{documents}} AS documents ON documents.id = chunks.document
    WHERE documents.organisation = :organisation
        AND (CAST(:org_id AS text) IS NULL OR documents.org_id = CAST(:org_id AS text))
    ORDER BY chunks.document, score DESC, chunks.id
), best AS (
    SELECT * FROM found ORDER BY score DESC, id LIMIT :limit
)
SELECT
    documents.id, documents.title, documents.url, documents.filename, documents.type, best.id,
    best.position, best.start_offset, best.end_offset,
    best.text,
    -- One blank for each separator: the marks stand at the same places as in the text itself.
    ts_headline(
        'ingestion.words', ingestion.separated(best.text), asked.some,
        'HighlightAll=true, StartSel=' || chr(2) || ', StopSel=' || chr(3)
    )
FROM best
CROSS JOIN asked
JOIN {{documents}} AS documents ON documents.id = best.document
ORDER BY best.score DESC, best.id
