-- name: chunks_without_extraction
SELECT chunks.id, chunks.text
FROM {{chunks}} AS chunks
LEFT JOIN {{extractions}} AS extractions
    ON extractions.chunk = chunks.id AND extractions.source = :source
WHERE chunks.document = :document AND extractions.chunk IS NULL
ORDER BY chunks.position
LIMIT :limit

-- The first such chunk of each document, unless a job has it to do or has failed.
-- name: documents_without_extraction
SELECT missing.document, missing.chunk FROM (
    SELECT chunks.document AS document, min(chunks.id) AS chunk
    FROM {{chunks}} AS chunks
    LEFT JOIN {{extractions}} AS extractions
        ON extractions.chunk = chunks.id AND extractions.source = :source
    WHERE extractions.chunk IS NULL
    GROUP BY chunks.document
) AS missing
{{without_a_job}}

-- name: forget_extraction
DELETE FROM {{extractions}} WHERE chunk = :chunk

-- name: add_extraction
INSERT INTO {{extractions}} (chunk, source)
SELECT chunks.id, CAST(:source AS text)
FROM {{chunks}} AS chunks
WHERE chunks.id = :chunk
{{unless_being_deleted}}
RETURNING chunk

-- name: add_mention
INSERT INTO {{mentions}} (chunk, concept, organisation, document, normalised, name, source)
SELECT
    chunks.id, CAST(:concept AS text), documents.organisation, documents.id,
    CAST(:normalised AS text), CAST(:name AS text), CAST(:source AS text)
FROM {{chunks}} AS chunks
JOIN {{documents}} AS documents ON documents.id = chunks.document
WHERE chunks.id = :chunk

-- name: add_relation
INSERT INTO {{relations}} (chunk, subject, object, label, organisation, document)
SELECT
    chunks.id, CAST(:subject AS text), CAST(:object AS text), CAST(:label AS text),
    documents.organisation, documents.id
FROM {{chunks}} AS chunks
JOIN {{documents}} AS documents ON documents.id = chunks.document
WHERE chunks.id = :chunk

-- fragment: in_scope
organisation = :organisation AND (
    CAST(:org_id AS text) IS NULL
    OR document IN (
        SELECT id FROM {{documents}}
        WHERE organisation = :organisation AND org_id = CAST(:org_id AS text)
    )
)

-- Capital letters sort first, so the name is spelled with them where any document does so.
-- fragment: concept_columns
concept, min(name), count(DISTINCT document) AS documents, count(*), min(source), max(source)

-- name: concepts
SELECT {{concept_columns}} FROM {{mentions}}
WHERE {{in_scope}} AND (CAST(:query AS text) = '' OR {{found_in_name}})
GROUP BY concept
HAVING CAST(:after_documents AS bigint) IS NULL
    OR count(DISTINCT document) < CAST(:after_documents AS bigint)
    OR (count(DISTINCT document) = CAST(:after_documents AS bigint) AND concept > :after)
ORDER BY documents DESC, concept
LIMIT :limit

-- name: concepts_by_id
SELECT {{concept_columns}} FROM {{mentions}}
WHERE {{in_scope}} AND concept IN ({{listed_ids}})
GROUP BY concept
ORDER BY documents DESC, concept

-- fragment: relation_columns
subject, label, object, count(DISTINCT document) AS documents

-- name: relations_of
SELECT {{relation_columns}} FROM {{relations}}
WHERE {{in_scope}} AND (subject = :concept OR object = :concept)
GROUP BY subject, label, object
ORDER BY documents DESC, subject, label, object
LIMIT :limit

-- name: relations_among
SELECT {{relation_columns}} FROM {{relations}}
WHERE {{in_scope}} AND subject IN ({{listed_ids}}) AND object IN ({{listed_ids}})
GROUP BY subject, label, object
ORDER BY documents DESC, subject, label, object
LIMIT :limit

-- name: documents_of
SELECT documents.id, documents.title, documents.url, documents.filename, mentioned.mentions
FROM (
    SELECT document, count(*) AS mentions FROM {{mentions}}
    WHERE {{in_scope}} AND concept = :concept
    GROUP BY document
) AS mentioned
JOIN {{documents}} AS documents ON documents.id = mentioned.document
ORDER BY mentioned.mentions DESC, documents.id
LIMIT :limit
