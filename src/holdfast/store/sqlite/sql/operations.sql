-- What operators did and look at, see jobs/operations_port.py.

-- name: audit_add
INSERT INTO holdfast_audit AS audit (at, who, role, action, target, detail)
VALUES (:now, :who, :role, :action, :target, :detail)
RETURNING seq;

-- name: audit_list
SELECT seq, at, who, role, action, target, detail FROM holdfast_audit AS audit
WHERE seq < :before
ORDER BY seq DESC
LIMIT :limit;

-- name: audit_trim
DELETE FROM holdfast_audit AS audit
WHERE seq < (SELECT min(seq) FROM holdfast_audit) + :limit
    AND (at < :now - :max_age OR seq <= (SELECT max(seq) FROM holdfast_audit) - :max_count)
RETURNING seq;

-- fragment: run_columns
id, action, filter, who, rate, total, started_at, state, matched, done, skipped, stop_requested, updated_at

-- name: run_give_up
UPDATE holdfast_dead_letter_runs AS dead_letter_runs SET state = 'failed'
WHERE state = 'running' AND updated_at <= :now - :stale_after
RETURNING id;

-- name: run_trim
DELETE FROM holdfast_dead_letter_runs AS dead_letter_runs
WHERE started_at < :now - :max_age AND state <> 'running'
RETURNING id;

-- name: run_begin
INSERT INTO holdfast_dead_letter_runs AS dead_letter_runs
    (id, action, filter, who, rate, total, state, started_at, updated_at)
VALUES (:id, :action, :filter, :who, :rate, :total, 'running', :now, :now)
ON CONFLICT DO NOTHING
RETURNING id;

-- name: run_update
UPDATE holdfast_dead_letter_runs AS dead_letter_runs
SET state = :state, matched = :matched, done = :done, skipped = :skipped, updated_at = :now
WHERE id = :id AND state = 'running'
RETURNING stop_requested;

-- name: run_request_stop
UPDATE holdfast_dead_letter_runs AS dead_letter_runs SET stop_requested = 1
WHERE state = 'running'
RETURNING id;

-- name: run_list
SELECT {{run_columns}} FROM holdfast_dead_letter_runs AS dead_letter_runs
ORDER BY started_at DESC
LIMIT :limit;

-- name: mark_add
INSERT INTO holdfast_counter_marks AS counter_marks (at, counters) VALUES (:now, :counters)
ON CONFLICT DO NOTHING;

-- name: mark_trim
DELETE FROM holdfast_counter_marks AS counter_marks WHERE at < :keep_from;

-- name: mark_list
SELECT at, counters FROM holdfast_counter_marks AS counter_marks WHERE at >= :since ORDER BY at;

-- The newest ends of attempts that ended their jobs. Only so many events are looked at.
-- name: read_finished_jobs
SELECT
    jobs.kind, nullif(lanes.downstream, '') AS downstream, jobs.status, jobs.attempt_count, jobs.created_at,
    jobs.started_at, jobs.last_attempt_at, jobs.finished_at
FROM (
    SELECT sequence, job, token, outcome FROM holdfast_events AS events
    WHERE sequence > (SELECT max(sequence) FROM holdfast_events) - :events
) AS newest
CROSS JOIN holdfast_jobs AS jobs ON jobs.seq = newest.job
CROSS JOIN holdfast_lanes AS lanes ON lanes.id = jobs.lane
WHERE (newest.outcome = 'complete' OR newest.outcome = 'failed' OR newest.outcome = 'timeout'
        OR newest.outcome = 'lease_lost')
    AND (jobs.status = 'complete' OR jobs.status = 'failed')
    AND newest.token = jobs.token
ORDER BY newest.sequence DESC
LIMIT :limit;

-- name: read_worker_loads
SELECT worker_id, count(*), sum(duration)
FROM (
    SELECT at, worker_id, duration FROM holdfast_events AS events
    WHERE sequence > (SELECT max(sequence) FROM holdfast_events) - :events
) AS newest
WHERE worker_id IS NOT NULL AND at >= :since
GROUP BY worker_id
ORDER BY worker_id;
