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
