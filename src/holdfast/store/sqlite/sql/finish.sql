-- Finishing attempts. A row of :ends is [seq, outcome, event, duration, error_code, error_message,
-- retry_after, meta]; it is read while the job's row still tells of the attempt. The path that
-- nearly every attempt takes, completion, has statements of its own: there a row of :rows is
-- [seq, token, result, duration, meta]. jsonb_each spares reading each row's text again.

-- name: finish_rows
SELECT
    given.key, jobs.seq, jobs.status, jobs.token, jobs.lane, jobs.kind, jobs.attempt_count,
    jobs.max_attempts, jobs.last_attempt_at, jobs.deadline_at, jobs.cancel_requested,
    jobs.error_code
FROM json_each(:ids) AS given
CROSS JOIN jobs ON jobs.id = given.value;

-- name: finish_attempts
INSERT INTO attempts (
    job, token, number, worker_id, started_at, finished_at, duration, outcome, error_code,
    error_message, retry_after, meta
)
SELECT
    jobs.seq, jobs.token, jobs.attempt_count, jobs.worker_id, jobs.last_attempt_at, :now,
    given.value ->> 3, given.value ->> 1, given.value ->> 4, given.value ->> 5, given.value ->> 6,
    given.value ->> 7
FROM jsonb_each(:ends) AS given
CROSS JOIN jobs ON jobs.seq = given.value ->> 0;

-- name: finish_events
INSERT INTO events (job, name, at, attempt, duration_ms, error_code, meta)
SELECT
    jobs.seq, given.value ->> 2, :now, jobs.attempt_count, (given.value ->> 3) * 1000.0,
    given.value ->> 4, given.value ->> 7
FROM jsonb_each(:ends) AS given
CROSS JOIN jobs ON jobs.seq = given.value ->> 0;

-- name: finish_complete_attempts
INSERT INTO attempts (
    job, token, number, worker_id, started_at, finished_at, duration, outcome, meta
)
SELECT
    jobs.seq, jobs.token, jobs.attempt_count, jobs.worker_id, jobs.last_attempt_at, :now,
    given.value ->> 3, 'complete', given.value ->> 4
FROM jsonb_each(:rows) AS given
CROSS JOIN jobs ON jobs.seq = given.value ->> 0;

-- name: finish_complete_events
INSERT INTO events (job, name, at, attempt, duration_ms, meta)
SELECT
    jobs.seq, 'complete', :now, jobs.attempt_count, (given.value ->> 3) * 1000.0,
    given.value ->> 4
FROM jsonb_each(:rows) AS given
CROSS JOIN jobs ON jobs.seq = given.value ->> 0;

-- fragment: no_lease
worker_id = NULL,
    lease_expires_at = NULL,
    permit_generation = NULL,
    permit_trial = NULL,
    cancel_requested = 0

-- name: finish_complete
UPDATE jobs SET
    status = 'complete',
    result = given.value ->> 2,
    progress = NULL,
    progress_note = NULL,
    finished_at = :now,
    {{no_lease}}
FROM jsonb_each(:rows) AS given
WHERE jobs.seq = given.value ->> 0
    AND jobs.status = 'processing'
    AND jobs.token = given.value ->> 1;

-- Where all results are the same text, `null` say: nothing has to be put by for each row, which
-- makes it a quarter cheaper. The tokens were compared before, in this very transaction.
-- name: finish_complete_alike
UPDATE jobs SET
    status = 'complete',
    result = :result,
    progress = NULL,
    progress_note = NULL,
    finished_at = :now,
    {{no_lease}}
WHERE seq IN (SELECT value FROM json_each(:seqs)) AND status = 'processing';

-- name: finish_requeue
UPDATE jobs SET
    status = 'queued',
    ready = given.value ->> 2 <= 0,
    -- What is handed back at once keeps its old place.
    ready_at = CASE
        WHEN given.value ->> 3 = 1 AND given.value ->> 2 <= 0 THEN ready_at
        ELSE :now + max(0, given.value ->> 2)
    END,
    queued_at = :now,
    attempt_count = attempt_count - given.value ->> 3,
    progress = NULL,
    progress_note = NULL,
    {{no_lease}}
FROM jsonb_each(:rows) AS given
WHERE jobs.seq = given.value ->> 0
    AND jobs.status = 'processing'
    AND jobs.token = given.value ->> 1;

-- name: finish_failed
UPDATE jobs SET
    status = 'failed',
    ready = 0,
    error_code = given.value ->> 2,
    error_message = given.value ->> 3,
    error_group = given.value ->> 4,
    dead_letter = given.value ->> 5,
    finished_at = :now,
    {{no_lease}}
FROM jsonb_each(:rows) AS given
WHERE jobs.seq = given.value ->> 0
    AND jobs.status NOT IN ('complete', 'failed', 'cancelled')
    AND jobs.token = given.value ->> 1;

-- name: finish_cancelled
UPDATE jobs SET
    status = 'cancelled',
    ready = 0,
    finished_at = :now,
    {{no_lease}}
FROM jsonb_each(:rows) AS given
WHERE jobs.seq = given.value ->> 0
    AND jobs.status NOT IN ('complete', 'failed', 'cancelled')
    AND jobs.token = given.value ->> 1;

-- name: finish_late
INSERT INTO late_results (job, token, received_at, result)
VALUES (:job, :token, :now, :result)
ON CONFLICT DO NOTHING;

-- name: finish_event
INSERT INTO events (job, name, at, attempt, duration_ms, error_code, meta)
SELECT seq, :name, :now, attempt_count, NULL, :error_code, :meta FROM jobs WHERE seq = :job;
