-- Claiming.

-- name: claim_next_due
SELECT min(ready_at) FROM holdfast_jobs AS jobs WHERE status = 'queued' AND ready = 0;

-- name: claim_promote
UPDATE holdfast_jobs AS jobs SET ready = 1
WHERE seq IN (
    SELECT seq FROM holdfast_jobs AS jobs
    WHERE status = 'queued' AND ready = 0 AND ready_at <= :now
    ORDER BY ready_at
    LIMIT :limit
)
RETURNING lane;

-- name: claim_next_cooled
SELECT min(open_until) FROM holdfast_downstreams AS downstreams WHERE lanes_held = 1 AND open_until IS NOT NULL;

-- name: claim_unhold_lanes
UPDATE holdfast_lanes AS lanes SET held = 0
WHERE downstream IN (
    SELECT name FROM holdfast_downstreams AS downstreams
    WHERE lanes_held = 1 AND open_until IS NOT NULL AND open_until <= :now
);

-- name: claim_unhold_downstreams
UPDATE holdfast_downstreams AS downstreams SET lanes_held = 0
WHERE lanes_held = 1 AND open_until IS NOT NULL AND open_until <= :now;

-- name: claim_lanes
SELECT served, id, queue, downstream, kind
FROM holdfast_lanes AS lanes
WHERE queue = :queue AND ready > 0 AND held = 0
    AND NOT EXISTS (
        SELECT 1 FROM holdfast_pauses AS pauses WHERE pauses.scope = 'queue' AND pauses.name = :queue
    )
    AND NOT EXISTS (
        SELECT 1 FROM holdfast_pauses AS pauses
        WHERE pauses.scope = 'kind' AND pauses.name = lanes.kind
    )
ORDER BY served, downstream;

-- name: claim_running_of_kind
SELECT coalesce(sum(processing), 0) FROM holdfast_lanes AS lanes WHERE kind = :kind AND processing > 0;

-- name: claim_running_of_downstream
SELECT coalesce(sum(processing), 0) FROM holdfast_lanes AS lanes WHERE downstream = :downstream;

-- name: claim_trial_leases
SELECT jobs.permit_trial, jobs.lease_expires_at
FROM holdfast_lanes AS lanes
CROSS JOIN holdfast_jobs AS jobs ON jobs.lane = lanes.id AND jobs.permit_trial IS NOT NULL
WHERE lanes.downstream = :downstream AND jobs.permit_generation = :generation;

-- fragment: candidate_columns
jobs.seq, jobs.id, jobs.priority, jobs.ready_at, jobs.attempt_count, jobs.max_attempts,
    jobs.token, jobs.owner, jobs.created_at, jobs.deadline_at, jobs.meta, job_arguments.arguments

-- name: claim_candidates
SELECT {{candidate_columns}}
FROM holdfast_jobs AS jobs
CROSS JOIN holdfast_job_arguments AS job_arguments ON job_arguments.job = jobs.seq
WHERE jobs.lane = :lane AND jobs.ready = 1
ORDER BY jobs.priority DESC, coalesce(jobs.owner, ''), jobs.ready_at, jobs.seq
LIMIT :limit OFFSET :offset;

-- name: claim_candidates_of_owner
SELECT {{candidate_columns}}
FROM holdfast_jobs AS jobs
CROSS JOIN holdfast_job_arguments AS job_arguments ON job_arguments.job = jobs.seq
WHERE jobs.lane = :lane
    AND jobs.ready = 1
    AND jobs.priority = :priority
    AND coalesce(jobs.owner, '') = :owner
ORDER BY jobs.ready_at, jobs.seq
LIMIT :limit OFFSET :offset;

-- name: claim_level_below
SELECT jobs.priority
FROM holdfast_jobs AS jobs
WHERE jobs.lane = :lane AND jobs.ready = 1 AND jobs.priority < :level
ORDER BY jobs.priority DESC
LIMIT 1;

-- name: claim_running_owners
SELECT jobs.owner
FROM holdfast_jobs AS jobs
CROSS JOIN holdfast_lanes AS lanes ON lanes.id = jobs.lane
WHERE jobs.lease_expires_at IS NOT NULL AND lanes.downstream = :downstream AND jobs.owner IS NOT NULL;

-- name: claim_next_owner
SELECT coalesce(jobs.owner, '')
FROM holdfast_jobs AS jobs
WHERE jobs.lane = :lane
    AND jobs.ready = 1
    AND jobs.priority = :priority
    AND coalesce(jobs.owner, '') >= :start
ORDER BY coalesce(jobs.owner, '')
LIMIT 1;

-- name: claim_start
UPDATE holdfast_jobs AS jobs SET
    status = 'processing',
    ready = 0,
    attempt_count = attempt_count + 1,
    token = token + 1,
    worker_id = :worker,
    lease_expires_at = :expires_at,
    started_at = coalesce(started_at, :now),
    last_attempt_at = :now,
    permit_generation = :generation,
    permit_trial = :trial
WHERE seq IN (SELECT value FROM carray(:seqs)) AND status = 'queued';

-- name: claim_lost_workers
SELECT seq FROM holdfast_jobs AS jobs WHERE seq IN (SELECT value FROM carray(:seqs)) AND lost_worker;

-- name: claim_events
INSERT INTO holdfast_events AS events (job, name, at, attempt)
SELECT value, 'processing', :now, :attempt FROM carray(:seqs);

-- name: claim_served
UPDATE holdfast_lanes AS lanes SET served = (SELECT max(sequence) FROM holdfast_events AS events)
FROM json_each(:lanes) AS given
WHERE lanes.queue = given.value ->> 0 AND lanes.downstream = given.value ->> 1;

-- name: claim_rate_spent
SELECT width, bucket, spent FROM holdfast_rate_spent AS rate_spent WHERE downstream = :downstream;

-- name: claim_spend
INSERT INTO holdfast_rate_spent AS rate_spent (downstream, width, bucket, spent)
VALUES (:downstream, :width, :bucket, :spent)
ON CONFLICT (downstream, width, bucket) DO UPDATE SET spent = spent + excluded.spent;

-- name: claim_forget_spent
DELETE FROM holdfast_rate_spent AS rate_spent WHERE downstream = :downstream AND width = :width AND bucket < :bucket;
