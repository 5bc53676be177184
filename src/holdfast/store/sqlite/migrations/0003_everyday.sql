-- Periodic jobs: the state of each schedule, see ScheduleRecord in jobs/periodic_port.py. A leader changes
-- a row only where `version` is the one that it read, in the transaction that creates the slot's job.
CREATE TABLE holdfast_schedules (
    name          TEXT    PRIMARY KEY,
    version       INTEGER NOT NULL,
    schedule      TEXT    NOT NULL,
    missed        TEXT    NOT NULL,
    overlap       INTEGER NOT NULL CHECK (overlap IN (0, 1)),
    handled_until REAL    NOT NULL,
    next_slot     REAL,
    last_slot     REAL,
    last_job      TEXT,
    paused_at     REAL,
    resumed_at    REAL,
    declared_at   REAL    NOT NULL,
    seen_at       REAL    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE VIEW holdfast_schedules_readable AS
SELECT
    name, schedule, missed, overlap, strftime('%FT%TZ', next_slot, 'unixepoch') AS next_slot,
    strftime('%FT%TZ', last_slot, 'unixepoch') AS last_slot, last_job,
    strftime('%FT%TZ', handled_until, 'unixepoch') AS handled_until,
    strftime('%FT%TZ', paused_at, 'unixepoch') AS paused_at,
    strftime('%FT%TZ', resumed_at, 'unixepoch') AS resumed_at,
    strftime('%FT%TZ', seen_at, 'unixepoch') AS seen_at
FROM holdfast_schedules;

-- Failures can be seen.

-- The traceback of a failed attempt, shortened by the worker.
ALTER TABLE holdfast_events ADD COLUMN traceback TEXT;
-- The kinds that a worker can run, a JSON array; NULL for a worker of the release before.
ALTER TABLE holdfast_workers ADD COLUMN kinds TEXT;

-- Pause and change.

-- Queues and kinds of which no job is claimed: few rows, usually none. Every claim reads them.
CREATE TABLE holdfast_pauses (
    scope     TEXT NOT NULL CHECK (scope IN ('queue', 'kind')),
    name      TEXT NOT NULL,
    paused_at REAL NOT NULL,
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;
-- Workers that someone asked to finish: they look for it twice a second.
CREATE TABLE holdfast_finish_requests (
    worker_id    TEXT PRIMARY KEY,
    requested_at REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- `held` with the pauses, and why; see job_columns in sql/queries.sql.
DROP VIEW holdfast_jobs_readable;
CREATE VIEW holdfast_jobs_readable AS
WITH held_jobs AS (
    SELECT
        jobs.seq,
        CASE
            WHEN jobs.status <> 'queued' OR jobs.ready_at > unixepoch('subsec') THEN NULL
            WHEN EXISTS (
                SELECT 1 FROM holdfast_pauses AS pauses
                WHERE pauses.scope = 'queue' AND pauses.name = lanes.queue
            ) THEN 'queue'
            WHEN EXISTS (
                SELECT 1 FROM holdfast_pauses AS pauses
                WHERE pauses.scope = 'kind' AND pauses.name = lanes.kind
            ) THEN 'kind'
            WHEN EXISTS (
                SELECT 1 FROM holdfast_downstreams AS downstreams
                WHERE downstreams.name = lanes.downstream
                    AND downstreams.held_until > unixepoch('subsec')
            ) THEN 'downstream'
        END AS reason
    FROM holdfast_jobs AS jobs
    JOIN holdfast_lanes AS lanes ON lanes.id = jobs.lane
)
SELECT
    jobs.id, jobs.kind, lanes.queue, nullif(lanes.downstream, '') AS downstream, jobs.status,
    held_jobs.reason IS NOT NULL AS held, held_jobs.reason AS held_by,
    jobs.priority, jobs.attempt_count, jobs.max_attempts, jobs.manual_retry_count,
    strftime('%FT%TZ', jobs.created_at, 'unixepoch') AS created_at,
    strftime('%FT%TZ', jobs.queued_at, 'unixepoch') AS queued_at,
    strftime('%FT%TZ', jobs.ready_at, 'unixepoch') AS ready_at,
    strftime('%FT%TZ', jobs.started_at, 'unixepoch') AS started_at,
    strftime('%FT%TZ', jobs.last_attempt_at, 'unixepoch') AS last_attempt_at,
    strftime('%FT%TZ', jobs.finished_at, 'unixepoch') AS finished_at,
    strftime('%FT%TZ', jobs.deadline_at, 'unixepoch') AS deadline_at,
    jobs.worker_id, strftime('%FT%TZ', jobs.lease_expires_at, 'unixepoch') AS lease_expires_at,
    jobs.cancel_requested, jobs.progress, jobs.progress_note, jobs.owner, jobs.dedup_key,
    jobs.error_code, jobs.error_message, jobs.dead_letter, jobs.meta, job_arguments.arguments,
    jobs.result
FROM holdfast_jobs AS jobs
JOIN holdfast_lanes AS lanes ON lanes.id = jobs.lane
JOIN held_jobs ON held_jobs.seq = jobs.seq
JOIN holdfast_job_arguments AS job_arguments ON job_arguments.job = jobs.seq;

-- The rule by which a job with a dedup key looks for twins, see DedupRule in jobs/dedup.py. NULL for
-- the usual one.
ALTER TABLE holdfast_jobs ADD COLUMN dedup_unfinished INTEGER;
ALTER TABLE holdfast_jobs ADD COLUMN dedup_seconds REAL;
