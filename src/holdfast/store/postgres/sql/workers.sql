-- Workers that are alive, and what runs in their names; see functions/workers.sql.

-- name: worker_register
SELECT holdfast.register_worker(:worker, :pid, CAST(:kinds AS text[]));

-- name: worker_cancel_requests
SELECT jobs.id
FROM holdfast.cancel_requests
JOIN holdfast.jobs ON jobs.seq = cancel_requests.job
WHERE cancel_requests.worker_id = :worker
    AND jobs.worker_id = cancel_requests.worker_id
    AND jobs.cancel_requested;

-- name: worker_leases
SELECT id, token, lease_expires_at FROM holdfast.jobs WHERE worker_id = :worker;
