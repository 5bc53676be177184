-- The statements that are the same on both databases. `{{jobs}}` is Holdfast's view of all jobs.

-- A document whose last attempt ended because its worker was killed: the server retries it (settling.py).
-- The token counts all claims, so a document that kills its workers is given up after 9.
-- fragment: lost_with_worker
(
    documents.status = 'queued' AND jobs.status = 'failed' AND jobs.error_code = 'LEASE_LOST'
    AND jobs.token < 9
)

-- A settled document says itself what became of it. Any other belongs to its job; without a job it
-- can only have failed, long ago. A stage is reported only once it has lasted a moment; before, it is
-- taken for the first one.
-- fragment: status
CASE
    WHEN documents.status = 'done' THEN 'done'
    WHEN jobs.status = 'queued' OR {{lost_with_worker}} THEN 'queued'
    WHEN jobs.status = 'processing' THEN coalesce(
        jobs.progress_note, CASE WHEN documents.url IS NULL THEN 'extracting' ELSE 'fetching' END
    )
    ELSE 'failed'
END

-- fragment: columns
documents.id, documents.org_id, documents.type, documents.url, documents.filename,
documents.title, documents.media_type, documents.bytes, documents.metadata, documents.chunks,
documents.status, documents.attempts, documents.error_code, documents.error,
documents.processing_metadata, documents.created_at, documents.checked_at, documents.finished_at,
documents.refresh_code, documents.refresh_error, documents.refresh_failed_at,
{{status}}, jobs.status, jobs.attempt_count, jobs.ready_at, jobs.last_attempt_at, jobs.progress,
jobs.error_code, jobs.error_message, jobs.finished_at

-- fragment: joined
{{documents}} AS documents
LEFT JOIN {{jobs}} AS jobs ON jobs.job_id = 'doc-' || documents.id

-- name: add
INSERT INTO {{documents}} (
    id, organisation, org_id, owner, source_key, type, url, filename, title, title_given, media_type,
    bytes, content, content_hash, metadata, created_at
) VALUES (
    :id, :organisation, :org_id, :owner, :source_key, :type, :url, :filename, :title,
    CAST(:title AS text) IS NOT NULL, :media_type, :bytes, :content, :content_hash, :metadata, :now
)
ON CONFLICT (organisation, source_key) DO NOTHING
RETURNING id

-- name: add_metadata
INSERT INTO {{metadata}} (document, key, value) VALUES (:document, :key, :value)

-- name: by_source
SELECT {{columns}} FROM {{joined}}
WHERE documents.organisation = :organisation AND documents.source_key = :source_key

-- name: get
SELECT {{columns}} FROM {{joined}}
WHERE documents.organisation = :organisation AND documents.id = :id

-- name: content
SELECT content FROM {{documents}} WHERE organisation = :organisation AND id = :id

-- name: excerpt
SELECT substr(content, 1, :most), length(content) FROM {{documents}}
WHERE organisation = :organisation AND id = :id AND content IS NOT NULL

-- name: exists
SELECT id FROM {{documents}} WHERE id = :id

-- name: bytes_of_owner
SELECT coalesce(sum(bytes), 0) FROM {{documents}} WHERE owner = :owner

-- name: of_owner
SELECT organisation, id FROM {{documents}} WHERE owner = :owner LIMIT 500

-- name: delete_document
DELETE FROM {{documents}} WHERE organisation = :organisation AND id = :id RETURNING id

-- name: delete_metadata
DELETE FROM {{metadata}} WHERE document = :id

-- name: delete_chunks
DELETE FROM {{chunks}} WHERE document = :id

-- What an attempt needs to know.
-- name: work
SELECT type, url, filename, etag, last_modified, content, content_hash, status
FROM {{documents}}
WHERE id = :id

-- A document whose job runs again after it had failed: a person has retried it.
-- name: reopen
UPDATE {{documents}}
SET status = 'queued', token = :token, error_code = NULL, error = NULL, processing_metadata = '{}',
    finished_at = NULL
WHERE id = :id AND status = 'failed' AND token < :token
RETURNING id

-- The same for one whose job's record is gone: the tokens of its new job begin with 1 again.
-- name: requeue
UPDATE {{documents}}
SET status = 'queued', token = 0, attempts = 0, error_code = NULL, error = NULL,
    processing_metadata = '{}', finished_at = NULL
WHERE id = :id AND organisation = :organisation AND status <> 'done'
RETURNING id

-- fragment: new_content
content = :content, content_hash = :content_hash, media_type = :media_type, bytes = :bytes,
title = CASE WHEN title_given THEN title ELSE CAST(:title AS text) END,
etag = :etag, last_modified = :last_modified, checked_at = :now

-- fragment: done
status = 'done', token = :token, attempts = :attempts, chunks = :chunks, finished_at = :now,
error_code = NULL, error = NULL, processing_metadata = :processing_metadata

-- The failure of an attempt may be settled after a retry has begun: the retry has a larger token.
-- fragment: its_turn
((status = 'queued' AND token <= :token) OR (status = 'failed' AND token < :token))

-- name: save_content
UPDATE {{documents}}
SET {{new_content}}, token = :token, status = 'queued', error_code = NULL, error = NULL,
    finished_at = NULL
WHERE id = :id AND {{its_turn}}
RETURNING id

-- The first chunk is also found by the title, which is stored before.
-- name: add_chunk
INSERT INTO {{chunks}} (document, position, start_offset, end_offset, text, title)
VALUES (
    :document, :position, :start, :end, :text,
    CASE WHEN CAST(:position AS integer) = 0
        THEN (SELECT title FROM {{documents}} WHERE id = :document)
    END
)

-- name: finish
UPDATE {{documents}} SET {{done}}
WHERE id = :id AND {{its_turn}}
RETURNING id

-- name: finish_with_content
UPDATE {{documents}} SET {{new_content}}, {{done}}
WHERE id = :id AND {{its_turn}}
RETURNING id

-- name: begin_refresh
UPDATE {{documents}} SET refresh_job = :job WHERE id = :id
RETURNING id

-- fragment: refreshed
refresh_job = NULL, refresh_code = NULL, refresh_error = NULL, refresh_failed_at = NULL

-- What a refresh found: new content, or nothing new.
-- name: renew
UPDATE {{documents}}
SET {{new_content}}, {{refreshed}}, chunks = :chunks, processing_metadata = :processing_metadata
WHERE id = :id AND status = 'done' AND content_hash = :seen_hash
RETURNING id

-- name: checked
UPDATE {{documents}}
SET checked_at = :now, etag = :etag, last_modified = :last_modified, {{refreshed}}
WHERE id = :id AND status = 'done'
RETURNING id

-- Documents whose job has ended without them: their outcome is to be copied from its record.
-- fragment: ended_without
SELECT
    documents.id, jobs.status, jobs.token, jobs.attempt_count, jobs.error_code, jobs.error_message,
    jobs.finished_at
FROM {{joined}}
WHERE documents.status = 'queued' AND jobs.status IN ('failed', 'cancelled')
    AND NOT {{lost_with_worker}}

-- name: lost_with_worker
SELECT documents.id FROM {{joined}}
WHERE {{lost_with_worker}}
LIMIT 500

-- name: unsettled
{{ended_without}}
LIMIT 500

-- name: unsettled_among
{{ended_without}} AND documents.id IN ({{listed_ids}})

-- name: fail
UPDATE {{documents}}
SET status = 'failed', token = :token, attempts = :attempts, error_code = :error_code,
    error = :error, processing_metadata = :processing_metadata, finished_at = :finished_at
WHERE id = :id AND status = 'queued' AND token <= :token
RETURNING id

-- name: failed_refreshes
SELECT documents.id, jobs.job_id, jobs.error_code, jobs.error_message, jobs.finished_at
FROM {{documents}} AS documents
JOIN {{jobs}} AS jobs ON jobs.job_id = documents.refresh_job
WHERE documents.refresh_job IS NOT NULL AND jobs.status = 'failed'
LIMIT 500

-- name: fail_refresh
UPDATE {{documents}}
SET refresh_job = NULL, refresh_code = :code, refresh_error = :error, refresh_failed_at = :failed_at
WHERE id = :id AND refresh_job = :job
RETURNING id

-- name: counts
SELECT {{status}} AS state, count(*) FROM {{joined}}
WHERE documents.organisation = :organisation
GROUP BY state
