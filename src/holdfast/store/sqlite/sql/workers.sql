-- Workers that are alive, or were, the processes they run in, and what runs in their names; at the end jumps
-- of the wall clock, see clock_jumps.py.

-- name: worker_register
INSERT INTO holdfast_workers AS workers
    (id, boot, namespace, pid, started, seen_at, kinds, registered_at)
VALUES (:worker, :boot, :namespace, :pid, :started, :now, :kinds, :now)
ON CONFLICT (id) DO UPDATE SET
    boot = excluded.boot, namespace = excluded.namespace, pid = excluded.pid,
    started = excluded.started, seen_at = excluded.seen_at, kinds = excluded.kinds;

-- name: worker_list
SELECT id, boot, namespace, pid, started FROM holdfast_workers AS workers;

-- name: worker_registered
SELECT id, registered_at FROM holdfast_workers AS workers;

-- name: worker_get
SELECT boot, namespace, pid, started FROM holdfast_workers AS workers WHERE id = :worker;

-- name: worker_end_leadership
UPDATE holdfast_leaders AS leaders SET expires_at = 0
WHERE holder IN (SELECT value FROM json_each(:workers)) AND expires_at > 0;

-- A worker with jobs left is kept: once it is dead, they are rescued.
-- fragment: without_jobs
NOT EXISTS (
        SELECT 1 FROM holdfast_jobs AS jobs
        WHERE jobs.lease_expires_at IS NOT NULL AND jobs.worker_id = workers.id
    )

-- name: worker_forget
DELETE FROM holdfast_workers AS workers
WHERE id IN (SELECT value FROM json_each(:workers))
    AND {{without_jobs}};

-- name: worker_forget_unseen
DELETE FROM holdfast_workers AS workers
WHERE seen_at <= :before
    AND {{without_jobs}};

-- name: worker_forget_leaderships
DELETE FROM holdfast_leaders AS leaders WHERE expires_at <= :before;

-- The ids of jobs to cancel; NULL for the request to finish.
-- name: worker_requests
SELECT jobs.id
FROM holdfast_cancel_requests AS cancel_requests
JOIN holdfast_jobs AS jobs ON jobs.seq = cancel_requests.job
WHERE cancel_requests.worker_id = :worker
    AND jobs.worker_id = cancel_requests.worker_id
    AND jobs.cancel_requested = 1
UNION ALL
SELECT NULL FROM holdfast_finish_requests AS finish_requests WHERE worker_id = :worker;

-- name: worker_running
SELECT worker_id, count(*) FROM holdfast_jobs AS jobs
WHERE lease_expires_at IS NOT NULL
GROUP BY worker_id;

-- name: worker_finish_requests
SELECT worker_id, requested_at FROM holdfast_finish_requests AS finish_requests;

-- name: worker_request_finish
INSERT OR IGNORE INTO holdfast_finish_requests AS finish_requests (worker_id, requested_at)
VALUES (:worker, :now);

-- name: worker_forget_finish_requests
DELETE FROM holdfast_finish_requests AS finish_requests WHERE requested_at < :before;

-- name: worker_note_cancel_request
INSERT OR IGNORE INTO holdfast_cancel_requests AS cancel_requests (worker_id, job)
SELECT worker_id, seq FROM holdfast_jobs AS jobs WHERE seq = :seq;

-- name: worker_forget_cancel_requests
DELETE FROM holdfast_cancel_requests AS cancel_requests
WHERE NOT EXISTS (
    SELECT 1 FROM holdfast_jobs AS jobs
    WHERE jobs.seq = cancel_requests.job
        AND jobs.worker_id = cancel_requests.worker_id
        AND jobs.cancel_requested = 1
);

-- name: worker_leases
SELECT id, token, lease_expires_at FROM holdfast_jobs AS jobs
WHERE lease_expires_at IS NOT NULL AND worker_id = :worker;

-- name: clock_recorded
SELECT boot, clock_offset FROM holdfast_clock AS clock WHERE id = 1;

-- name: clock_record
INSERT OR REPLACE INTO holdfast_clock AS clock (id, boot, clock_offset) VALUES (1, :boot, :offset);

-- name: clock_move_leases
UPDATE holdfast_jobs AS jobs SET lease_expires_at = lease_expires_at + :jump
WHERE lease_expires_at IS NOT NULL;

-- name: clock_move_workers
UPDATE holdfast_workers AS workers SET seen_at = seen_at + :jump;

-- A leadership that was resigned ends at 0.
-- name: clock_move_leaderships
UPDATE holdfast_leaders AS leaders SET expires_at = expires_at + :jump WHERE expires_at > 0;

-- name: clock_move_messages
UPDATE holdfast_outbox SET claimable_at = claimable_at + :jump
WHERE status = 'pending' AND claimable_at IS NOT NULL;

-- name: clock_move_requests
UPDATE holdfast_handling SET leased_until = leased_until + :jump WHERE leased_until IS NOT NULL;
