-- Requests of people and handlers, one job at a time.

-- name: control_row
SELECT
    seq, status, token, lane, kind, ready, attempt_count, cancel_requested, ready_at, error_code,
    error_group, dead_letter, dedup_key, dedup_unfinished, dedup_seconds
FROM holdfast_jobs AS jobs
WHERE id = :id;

-- name: control_submit
UPDATE holdfast_jobs AS jobs SET
    status = 'queued',
    queued_at = :now,
    ready_at = max(coalesce(ready_at, :now), :now),
    ready = coalesce(ready_at, :now) <= :now
WHERE seq = :seq AND status = 'uploaded';

-- name: control_request_cancel
UPDATE holdfast_jobs AS jobs SET cancel_requested = 1 WHERE seq = :seq AND status = 'processing';

-- name: control_expedite
UPDATE holdfast_jobs AS jobs SET ready = 1, ready_at = :now WHERE seq = :seq AND status = 'queued';

-- name: control_retry
UPDATE holdfast_jobs AS jobs SET
    status = 'queued',
    ready = 1,
    ready_at = :now,
    queued_at = :now,
    attempt_count = 0,
    manual_retry_count = manual_retry_count + 1,
    started_at = NULL,
    last_attempt_at = NULL,
    finished_at = NULL,
    deadline_at = CASE WHEN deadline_at < :now THEN NULL ELSE deadline_at END,
    progress = NULL,
    progress_note = NULL,
    error_code = NULL,
    error_message = NULL,
    error_group = NULL,
    dead_letter = NULL,
    lost_worker = 0
WHERE seq = :seq AND status = 'failed';

-- name: control_twin
SELECT 1 FROM holdfast_jobs AS jobs
WHERE kind = :kind
    AND dedup_key = :dedup_key
    AND dedup_key IS NOT NULL
    AND status <> 'failed'
    AND status <> 'cancelled'
    AND seq <> :seq;

-- name: control_discard
UPDATE holdfast_jobs AS jobs SET dead_letter = NULL WHERE seq = :seq AND dead_letter IS NOT NULL;

-- name: control_progress
UPDATE holdfast_jobs AS jobs SET progress = :progress, progress_note = :note
WHERE id = :id AND status = 'processing' AND token = :token;

-- name: control_extend
UPDATE holdfast_jobs AS jobs SET lease_expires_at = :expires_at
FROM json_each(:leases) AS given
WHERE jobs.id = given.value ->> 0
    AND jobs.status = 'processing'
    AND jobs.token = given.value ->> 1
RETURNING id, token, cancel_requested;

-- name: control_zombies
SELECT count(*)
FROM json_each(:leases) AS given
CROSS JOIN holdfast_jobs AS jobs ON jobs.id = given.value ->> 0
CROSS JOIN holdfast_events AS events ON events.job = jobs.seq AND events.token = given.value ->> 1
WHERE events.outcome = 'lease_lost' OR events.outcome = 'timeout';

-- name: pause_add
INSERT INTO holdfast_pauses AS pauses (scope, name, paused_at)
SELECT :scope, given.value, :now FROM json_each(:names) AS given
WHERE true
ON CONFLICT DO NOTHING
RETURNING name;

-- name: pause_remove
DELETE FROM holdfast_pauses AS pauses
WHERE scope = :scope AND name IN (SELECT value FROM json_each(:names))
RETURNING name;

-- name: pause_list
SELECT scope, name, paused_at FROM holdfast_pauses AS pauses ORDER BY scope, name;
