-- Workers that are alive, and what runs in their names; see functions/workers.sql.

-- name: worker_register
SELECT holdfast.register_worker(:worker, :pid, CAST(:kinds AS text[]));

-- The ids of jobs to cancel; NULL for the request to finish.
-- name: worker_requests
SELECT jobs.id
FROM holdfast.cancel_requests
JOIN holdfast.jobs ON jobs.seq = cancel_requests.job
WHERE cancel_requests.worker_id = :worker
    AND jobs.worker_id = cancel_requests.worker_id
    AND jobs.cancel_requested
UNION ALL
SELECT NULL FROM holdfast.finish_requests WHERE finish_requests.worker_id = :worker;

-- name: worker_overview
SELECT found.id, found.running, found.finish_requested_at, workers.registered_at
FROM holdfast.list_workers() AS found
LEFT JOIN holdfast.workers ON workers.id = found.id
ORDER BY found.id COLLATE "C";

-- name: worker_request_finish
SELECT holdfast.request_finish(:worker, :now);

-- name: worker_leases
SELECT id, token, lease_expires_at FROM holdfast.jobs WHERE worker_id = :worker;
