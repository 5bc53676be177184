-- What operators did and look at, see jobs/operations_port.py.

-- name: audit_add
INSERT INTO holdfast.audit (at, who, role, action, target, detail)
VALUES (holdfast.time_of(:now), :who, :role, :action, :target, :detail)
RETURNING seq;

-- name: audit_list
SELECT seq, at, who, role, action, target, detail FROM holdfast.audit
WHERE seq < :before
ORDER BY seq DESC
LIMIT :limit;

-- name: audit_trim
DELETE FROM holdfast.audit
WHERE seq < (SELECT min(seq) FROM holdfast.audit) + CAST(:limit AS bigint)
    AND (
        at < holdfast.time_of(:now) - CAST(:max_age AS double precision)
        OR seq <= (SELECT max(seq) FROM holdfast.audit) - CAST(:max_count AS bigint)
    )
RETURNING seq;

-- fragment: run_columns
id, action, filter, who, rate, total, started_at, state, matched, done, skipped, stop_requested, updated_at

-- name: run_give_up
UPDATE holdfast.dead_letter_runs SET state = 'failed'
WHERE state = 'running' AND updated_at <= holdfast.time_of(:now) - CAST(:stale_after AS double precision)
RETURNING id;

-- name: run_trim
DELETE FROM holdfast.dead_letter_runs
WHERE started_at < holdfast.time_of(:now) - CAST(:max_age AS double precision) AND state <> 'running'
RETURNING id;

-- name: run_begin
INSERT INTO holdfast.dead_letter_runs (id, action, filter, who, rate, total, state, started_at, updated_at)
SELECT :id, :action, :filter, :who, :rate, :total, 'running', moment.at, moment.at
FROM holdfast.time_of(:now) AS moment (at)
ON CONFLICT DO NOTHING
RETURNING id;

-- name: run_update
UPDATE holdfast.dead_letter_runs
SET state = :state, matched = :matched, done = :done, skipped = :skipped, updated_at = holdfast.time_of(:now)
WHERE id = :id AND state = 'running'
RETURNING stop_requested;

-- name: run_request_stop
UPDATE holdfast.dead_letter_runs SET stop_requested = true
WHERE state = 'running'
RETURNING id;

-- name: run_list
SELECT {{run_columns}} FROM holdfast.dead_letter_runs
ORDER BY started_at DESC
LIMIT :limit;

-- name: mark_add
INSERT INTO holdfast.counter_marks (at, counters) VALUES (holdfast.time_of(:now), :counters)
ON CONFLICT DO NOTHING;

-- name: mark_trim
DELETE FROM holdfast.counter_marks WHERE at < :keep_from;

-- name: mark_list
SELECT at, counters FROM holdfast.counter_marks WHERE at >= :since ORDER BY at;

-- The newest ends of attempts that ended their jobs. Only so many pages of the history are looked at. The
-- lateral join is by primary key, whatever the planner knows of the tables.
-- name: read_finished_jobs
SELECT
    job.kind, nullif(lanes.downstream, '') AS downstream, job.status::text, job.attempt_count, job.created_at,
    job.started_at, job.last_attempt_at, job.finished_at
FROM (
    SELECT page.sequence, line.job, line.token
    FROM (SELECT * FROM holdfast.history ORDER BY sequence DESC LIMIT :events) AS page
    CROSS JOIN LATERAL unnest(page.jobs, page.tokens) AS line (job, token)
    WHERE page.outcome IN ('complete', 'failed', 'timeout', 'lease_lost')
    ORDER BY page.sequence DESC
    LIMIT :limit
) AS ended
CROSS JOIN LATERAL (SELECT * FROM holdfast.jobs WHERE jobs.seq = ended.job LIMIT 1) AS job
JOIN holdfast.lanes ON lanes.id = job.lane
WHERE job.status IN ('complete', 'failed') AND job.token = ended.token
ORDER BY ended.sequence DESC;

-- A page may tell of thousands of attempts: no more attempts are read than pages.
-- name: read_worker_loads
SELECT newest.worker, count(*), sum(newest.duration)
FROM (
    SELECT coalesce(line.worker, page.workers[1]) AS worker, line.duration
    FROM (SELECT * FROM holdfast.history ORDER BY sequence DESC LIMIT :events) AS page
    CROSS JOIN LATERAL unnest(page.workers, page.durations) AS line (worker, duration)
    WHERE page.outcome IS NOT NULL AND page.at >= CAST(:since AS double precision)
    LIMIT :events
) AS newest
GROUP BY newest.worker
ORDER BY newest.worker COLLATE "C";
