-- name: first_chunk
SELECT id FROM {{chunks}} WHERE document = :document ORDER BY position LIMIT 1

-- Of the first chunks that a follow-up has yet to do, those that no job has to do or has failed at.
-- fragment: without_a_job
LEFT JOIN {{jobs}} AS jobs
    ON jobs.job_id =
        CAST(:job_prefix AS text) || '-' || missing.document || '-' || CAST(missing.chunk AS text)
WHERE jobs.job_id IS NULL
ORDER BY missing.document
LIMIT :limit
