-- Claiming where limits or breakers must be checked, statement by statement in one transaction.

-- name: claim_promote
SELECT holdfast.promote(:now);

-- name: claim_lanes
SELECT lane, queue, downstream, kind, generation, open_until, stance
FROM holdfast.waiting_lanes(:queues, :kinds, :now)
ORDER BY lane;

-- Kinds with a limit, each locked until the transaction ends, in the order given.
-- name: claim_lock_kinds
SELECT pg_advisory_xact_lock(hashtextextended('holdfast kind ' || kind, 0))
FROM unnest(CAST(:kinds AS text[])) WITH ORDINALITY AS given (kind, place)
ORDER BY place;

-- name: claim_running
SELECT lanes.downstream, lanes.kind, count(*)
FROM holdfast.lanes
JOIN holdfast.jobs ON jobs.lane = lanes.id AND jobs.worker_id IS NOT NULL
WHERE lanes.downstream = ANY (CAST(:downstreams AS text[]))
    OR lanes.kind = ANY (CAST(:kinds AS text[]))
GROUP BY lanes.downstream, lanes.kind;

-- name: claim_trial_leases
SELECT jobs.permit_trial, jobs.lease_expires_at
FROM holdfast.lanes
JOIN holdfast.jobs ON jobs.lane = lanes.id AND jobs.worker_id IS NOT NULL
WHERE lanes.downstream = :downstream
    AND jobs.permit_trial IS NOT NULL
    AND jobs.permit_generation = :generation;

-- name: claim_rate_spent
SELECT width, bucket, spent FROM holdfast.rate_spent WHERE downstream = :downstream;

-- name: claim_time_out
SELECT id FROM holdfast.time_out_ready(:lanes, :timeout, :now);

-- name: claim_heads
SELECT given.lane, head.priority, head.ready_at, head.seq
FROM unnest(CAST(:lanes AS integer[])) AS given (lane)
CROSS JOIN LATERAL (
    SELECT jobs.priority, jobs.ready_at, jobs.seq
    FROM holdfast.jobs
    WHERE jobs.ready AND jobs.lane = given.lane
    ORDER BY jobs.priority DESC, jobs.ready_at, jobs.seq
    LIMIT CAST(:limit AS integer)
) AS head;

-- name: claim_take
SELECT *
FROM holdfast.take(:worker, :lanes, :quotas, :generations, :lease, :now);

-- name: claim_trials
UPDATE holdfast.jobs SET permit_trial = given.trial
FROM unnest(CAST(:seqs AS bigint[]), CAST(:trials AS bigint[])) AS given (seq, trial)
WHERE jobs.seq = given.seq;

-- name: claim_spend
INSERT INTO holdfast.rate_spent AS spending (downstream, width, bucket, spent)
VALUES (:downstream, :width, :bucket, :spent)
ON CONFLICT (downstream, width, bucket) DO UPDATE SET spent = spending.spent + excluded.spent;

-- name: claim_forget_spent
DELETE FROM holdfast.rate_spent
WHERE downstream = :downstream AND width = :width AND bucket < :bucket;
