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
