-- Periodic jobs: the state of each schedule, see ScheduleRecord in jobs/periodic_port.py. A leader changes
-- a row only where `version` is the one that it read, in the transaction that creates the slot's job.
CREATE TABLE holdfast.schedules (
    name          text    COLLATE "C" PRIMARY KEY,
    version       bigint  NOT NULL,
    schedule      text    NOT NULL,
    missed        text    NOT NULL,
    overlap       boolean NOT NULL,
    handled_until double precision NOT NULL,
    next_slot     double precision,
    last_slot     double precision,
    last_job      text,
    paused_at     double precision,
    resumed_at    double precision,
    declared_at   double precision NOT NULL,
    seen_at       double precision NOT NULL
);
CREATE VIEW holdfast.schedules_readable AS
SELECT
    name, schedule, missed, overlap, to_timestamp(next_slot) AS next_slot,
    to_timestamp(last_slot) AS last_slot, last_job, to_timestamp(handled_until) AS handled_until,
    to_timestamp(paused_at) AS paused_at, to_timestamp(resumed_at) AS resumed_at,
    to_timestamp(seen_at) AS seen_at
FROM holdfast.schedules;

-- Failures can be seen.

-- The traceback of a failed attempt, shortened by the worker. A page that ends a failed attempt is about
-- one job.
ALTER TABLE holdfast.history ADD COLUMN traceback text;
CREATE OR REPLACE VIEW holdfast.events AS
SELECT
    history.sequence - cardinality(history.jobs) + line.place AS sequence,
    history.sequence AS page, line.place, line.job, line.previous, history.at, history.name,
    coalesce(line.attempt, 0) AS attempt, history.outcome, line.token,
    coalesce(line.worker, history.workers[1]) AS worker_id, line.started_at, line.duration,
    history.retry_after, history.error_code, history.error_message, line.meta, history.traceback
FROM holdfast.history
CROSS JOIN LATERAL unnest(
    history.jobs, history.previous, history.attempts, history.tokens, history.workers,
    history.started_ats, history.durations, history.metas
) WITH ORDINALITY AS line (
    job, previous, attempt, token, worker, started_at, duration, meta, place
);
-- The kinds that a worker can run; NULL for a worker of the release before.
ALTER TABLE holdfast.workers ADD COLUMN kinds text[] COLLATE "C";

-- Pause and change.

-- Queues and kinds of which no job is claimed: few rows, usually none. Every claim reads them.
CREATE TABLE holdfast.pauses (
    scope     text COLLATE "C" NOT NULL CHECK (scope IN ('queue', 'kind')),
    name      text COLLATE "C" NOT NULL,
    paused_at double precision NOT NULL,
    PRIMARY KEY (scope, name)
);
-- Workers that someone asked to finish: they look for it twice a second. Not a column of
-- holdfast.workers: behind a pooler a worker has no row there.
CREATE TABLE holdfast.finish_requests (
    worker_id    text COLLATE "C" PRIMARY KEY,
    requested_at double precision NOT NULL
);

-- `held` with the pauses, and why; see job_columns in sql/queries.sql.
CREATE OR REPLACE VIEW holdfast.jobs_readable AS
SELECT
    jobs.id, jobs.kind, lanes.queue, nullif(lanes.downstream, '') AS downstream, jobs.status,
    hold.reason IS NOT NULL AS held,
    jobs.priority, jobs.attempt_count, jobs.max_attempts, jobs.manual_retry_count,
    to_timestamp(jobs.created_at) AS created_at, to_timestamp(jobs.queued_at) AS queued_at,
    to_timestamp(jobs.ready_at) AS ready_at, to_timestamp(jobs.started_at) AS started_at,
    to_timestamp(jobs.last_attempt_at) AS last_attempt_at,
    to_timestamp(jobs.finished_at) AS finished_at, to_timestamp(jobs.deadline_at) AS deadline_at,
    jobs.worker_id, to_timestamp(jobs.lease_expires_at) AS lease_expires_at,
    jobs.cancel_requested, jobs.progress, jobs.progress_note, jobs.owner, jobs.dedup_key,
    jobs.error_code, jobs.error_message, jobs.dead_letter, jobs.meta, jobs.arguments, jobs.result,
    hold.reason AS held_by
FROM holdfast.jobs
JOIN holdfast.lanes ON lanes.id = jobs.lane
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN jobs.status <> 'queued' OR jobs.ready_at > extract(epoch FROM now()) THEN NULL
        WHEN EXISTS (
            SELECT FROM holdfast.pauses
            WHERE pauses.scope = 'queue' AND pauses.name = lanes.queue
        ) THEN 'queue'
        WHEN EXISTS (
            SELECT FROM holdfast.pauses WHERE pauses.scope = 'kind' AND pauses.name = lanes.kind
        ) THEN 'kind'
        WHEN EXISTS (
            SELECT FROM holdfast.downstreams
            WHERE downstreams.name = lanes.downstream
                AND downstreams.held_until > extract(epoch FROM now())
        ) THEN 'downstream'
    END AS reason
) AS hold;

-- The rule by which a job with a dedup key looks for twins, see DedupRule in jobs/dedup.py. NULL for
-- the usual one.
ALTER TABLE holdfast.jobs
    ADD COLUMN dedup_unfinished boolean, ADD COLUMN dedup_seconds double precision;
