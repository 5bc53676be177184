-- Finishing attempts. A row of :ends is [seq, outcome, event, duration, error_code, error_message,
-- retry_after, meta, traceback]; the rest of the history is read from the job's row, before the job moves.
-- Completions, which are most of the ends, have their own statements, and completions that differ
-- only in their times have cheaper ones. jsonb_each does not parse each row's text again.

-- name: finish_rows
SELECT
    given.key, jobs.seq, jobs.status, jobs.token, jobs.lane, jobs.kind, jobs.attempt_count,
    jobs.max_attempts, jobs.worker_id, jobs.last_attempt_at, jobs.deadline_at,
    jobs.cancel_requested, jobs.error_code
FROM jsonb_each(:ids) AS given
CROSS JOIN holdfast_jobs AS jobs ON jobs.id = given.value;

-- name: finish_ends
INSERT INTO holdfast_events AS events (
    job, name, at, attempt, error_code, meta, token, outcome, worker_id, started_at, duration,
    error_message, retry_after, traceback
)
SELECT
    jobs.seq, given.value ->> 2, :now, jobs.attempt_count, given.value ->> 4, given.value ->> 7,
    jobs.token, given.value ->> 1, jobs.worker_id, jobs.last_attempt_at, given.value ->> 3,
    given.value ->> 5, given.value ->> 6, given.value ->> 8
FROM jsonb_each(:ends) AS given
CROSS JOIN holdfast_jobs AS jobs ON jobs.seq = given.value ->> 0;

-- A row of :rows is [seq, token, result, duration, meta].
-- name: finish_complete_ends
INSERT INTO holdfast_events AS events (
    job, name, at, attempt, meta, token, outcome, worker_id, started_at, duration
)
SELECT
    jobs.seq, 'complete', :now, jobs.attempt_count, given.value ->> 4,
    jobs.token, 'complete', jobs.worker_id, jobs.last_attempt_at, given.value ->> 3
FROM jsonb_each(:rows) AS given
CROSS JOIN holdfast_jobs AS jobs
    ON jobs.seq = given.value ->> 0
    AND jobs.status = 'processing'
    AND jobs.token = given.value ->> 1;

-- A row of :rows is [seq, duration, started_at].
-- name: finish_complete_ends_uniform
INSERT INTO holdfast_events AS events (job, name, at, attempt, token, outcome, worker_id, started_at, duration)
SELECT
    value ->> 0, 'complete', :now, :attempt, :token, 'complete', :worker, value ->> 2, value ->> 1
FROM jsonb_each(:rows);

-- fragment: no_lease
worker_id = NULL,
    lease_expires_at = NULL,
    permit_generation = NULL,
    permit_trial = NULL,
    cancel_requested = 0

-- name: finish_complete
UPDATE holdfast_jobs AS jobs SET
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

-- A quarter cheaper than finish_complete, as no temporary table is needed for the join.
-- name: finish_complete_uniform
UPDATE holdfast_jobs AS jobs SET
    status = 'complete',
    result = :result,
    progress = NULL,
    progress_note = NULL,
    finished_at = :now,
    {{no_lease}}
WHERE seq IN (SELECT value FROM carray(:seqs)) AND status = 'processing' AND token = :token;

-- A row of :rows is [seq, token, after, attempts not counted, whether it keeps its place].
-- name: finish_requeue
UPDATE holdfast_jobs AS jobs SET
    status = 'queued',
    ready = given.value ->> 2 <= 0,
    ready_at = CASE
        WHEN given.value ->> 4 = 1 THEN ready_at
        ELSE :now + max(0, given.value ->> 2)
    END,
    queued_at = :now,
    attempt_count = attempt_count - given.value ->> 3,
    lost_worker = lost_worker OR given.value ->> 5,
    progress = NULL,
    progress_note = NULL,
    {{no_lease}}
FROM jsonb_each(:rows) AS given
WHERE jobs.seq = given.value ->> 0
    AND jobs.status = 'processing'
    AND jobs.token = given.value ->> 1;

-- name: finish_failed
UPDATE holdfast_jobs AS jobs SET
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
UPDATE holdfast_jobs AS jobs SET
    status = 'cancelled',
    ready = 0,
    finished_at = :now,
    {{no_lease}}
FROM jsonb_each(:rows) AS given
WHERE jobs.seq = given.value ->> 0
    AND jobs.status NOT IN ('complete', 'failed', 'cancelled')
    AND jobs.token = given.value ->> 1;

-- name: finish_late
INSERT INTO holdfast_late_results AS late_results (job, token, received_at, result)
VALUES (:job, :token, :now, :result)
ON CONFLICT DO NOTHING;

-- name: finish_event
INSERT INTO holdfast_events AS events (job, name, at, attempt, error_code, meta)
SELECT seq, :name, :now, attempt_count, :error_code, :meta FROM holdfast_jobs AS jobs WHERE seq = :job;

-- Read at the beginning of a handler's transaction: whether its attempt still holds the lease.
-- name: transaction_lease
SELECT 1
FROM holdfast_jobs AS jobs
WHERE id = :id AND status = 'processing' AND token = :token AND worker_id = :worker;

-- name: dead_letters_none
SELECT kind FROM holdfast_kinds_without_dead_letters AS kinds_without_dead_letters;

-- name: dead_letters_stop
INSERT INTO holdfast_kinds_without_dead_letters (kind) VALUES (:kind) ON CONFLICT DO NOTHING;

-- name: dead_letters_allow
DELETE FROM holdfast_kinds_without_dead_letters AS kinds_without_dead_letters WHERE kind = :kind;

-- name: dead_letters_has_none
SELECT 1 FROM holdfast_kinds_without_dead_letters AS kinds_without_dead_letters WHERE kind = :kind;
