-- Maintenance. Each task finds its rows in a partial index and works on a bounded number of them.

-- name: maintain_lead
INSERT INTO holdfast_leaders AS leaders (name, holder, term, expires_at)
VALUES (:name, :holder, 1, :expires_at)
ON CONFLICT (name) DO UPDATE SET
    term = term + (leaders.holder <> excluded.holder OR leaders.expires_at <= :now),
    holder = excluded.holder,
    expires_at = excluded.expires_at
WHERE leaders.holder = excluded.holder OR leaders.expires_at <= :now
RETURNING term;

-- name: maintain_resign
UPDATE holdfast_leaders AS leaders SET expires_at = 0 WHERE name = :name AND holder = :holder AND expires_at > 0;

-- name: maintain_leader
SELECT holder FROM holdfast_leaders AS leaders WHERE name = :name AND expires_at > :now;

-- fragment: lost_columns
jobs.seq, jobs.id, jobs.token, jobs.lane, jobs.kind, jobs.attempt_count, jobs.max_attempts,
    jobs.last_attempt_at, jobs.cancel_requested, jobs.owner

-- Deadlines come first: see maintain_past_deadline.
-- fragment: within_deadline
(jobs.deadline_at IS NULL OR jobs.deadline_at >= :now)

-- name: maintain_expired_leases
SELECT {{lost_columns}}
FROM holdfast_jobs AS jobs
WHERE jobs.lease_expires_at IS NOT NULL AND jobs.lease_expires_at <= :now
    AND {{within_deadline}}
ORDER BY jobs.lease_expires_at
LIMIT :limit;

-- name: maintain_leases_of_dead
SELECT {{lost_columns}}
FROM holdfast_jobs AS jobs
WHERE jobs.lease_expires_at IS NOT NULL
    AND jobs.worker_id IN (SELECT value FROM json_each(:workers))
    AND {{within_deadline}}
LIMIT :limit;

-- name: maintain_past_deadline
SELECT seq, id, token, lane, kind, status, ready, attempt_count, last_attempt_at, max_attempts, owner
FROM holdfast_jobs AS jobs
WHERE deadline_at IS NOT NULL AND finished_at IS NULL AND deadline_at < :now
ORDER BY deadline_at
LIMIT :limit;

-- name: maintain_late
SELECT seq FROM holdfast_jobs AS jobs
WHERE id = :id AND token = :token AND status = 'failed' AND error_code = 'TIMEOUT';

-- name: maintain_count_of_kind
SELECT coalesce(sum(complete), 0), coalesce(sum(failed), 0), coalesce(sum(cancelled), 0)
FROM holdfast_lanes AS lanes
WHERE kind = :kind;

-- fragment: deleted_columns
seq, finished_at, id, lane, kind, status, owner, meta, result, error_code, error_group, dead_letter

-- name: maintain_oldest_finished
SELECT {{deleted_columns}}
FROM holdfast_jobs AS jobs
WHERE kind = :kind AND status = :status AND finished_at IS NOT NULL
ORDER BY finished_at, seq
LIMIT :limit;

-- name: maintain_finished_of_ids
SELECT {{deleted_columns}}
FROM holdfast_jobs AS jobs
WHERE id IN (SELECT value FROM json_each(:ids)) AND finished_at IS NOT NULL;

-- name: maintain_delete_jobs
DELETE FROM holdfast_jobs AS jobs WHERE seq IN (SELECT value FROM json_each(:seqs));

-- name: maintain_delete_arguments
DELETE FROM holdfast_job_arguments AS job_arguments WHERE job IN (SELECT value FROM json_each(:seqs));

-- name: maintain_delete_events
DELETE FROM holdfast_events AS events WHERE job IN (SELECT value FROM json_each(:seqs));

-- name: maintain_delete_late_results
DELETE FROM holdfast_late_results AS late_results WHERE job IN (SELECT value FROM json_each(:seqs));

-- Lanes that no job is in.
-- name: maintain_delete_lanes
DELETE FROM holdfast_lanes AS lanes
WHERE id IN (SELECT value FROM json_each(:lanes))
    AND uploaded + scheduled + ready + processing + complete + failed + cancelled = 0;

-- Kinds of waiting jobs that no registered worker knows. None if the worker that asks is not registered
-- itself, or if a worker does not say what it knows: then others may know them.
-- name: maintain_unknown_kinds
SELECT kind, sum(ready + scheduled) AS waiting
FROM holdfast_lanes AS lanes
WHERE ready + scheduled > 0
    AND EXISTS (SELECT 1 FROM holdfast_workers AS workers WHERE id = :worker)
    AND NOT EXISTS (SELECT 1 FROM holdfast_workers AS workers WHERE kinds IS NULL)
    AND NOT EXISTS (
        SELECT 1 FROM holdfast_workers AS workers
        CROSS JOIN json_each(workers.kinds) AS known ON known.value = lanes.kind
    )
GROUP BY kind
ORDER BY kind;
