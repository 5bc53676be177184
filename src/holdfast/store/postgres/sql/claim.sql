-- Claiming where limits or breakers must be checked, statement by statement in one transaction.

-- name: claim_promote
SELECT moment.t AS now, holdfast.promote(moment.t) AS wake_at, holdfast.owners_are_limited() AS owners_are_limited
FROM holdfast.time_of(:now) AS moment (t);

-- name: claim_lanes
SELECT lane, queue, downstream, kind, generation, held_until, needs_check
FROM holdfast.ready_lanes(:queues, :kinds, :now)
ORDER BY lane;

-- An id that a worker remembers may belong to another lane by now.
-- name: claim_remembered_lanes
SELECT lane, queue, downstream, kind, generation, held_until, needs_check
FROM holdfast.lane_states(:lanes, :now)
WHERE queue = ANY (CAST(:queues AS text[])) AND kind = ANY (CAST(:kinds AS text[]));

-- Kinds with a limit, each locked until the transaction ends, in the order given.
-- name: claim_lock_kinds
SELECT pg_advisory_xact_lock(hashtextextended('holdfast kind ' || kind, 0))
FROM unnest(CAST(:kinds AS text[])) WITH ORDINALITY AS given (kind, number)
ORDER BY number;

-- name: claim_running_kinds
SELECT lanes.kind, count(*)
FROM holdfast.lanes
JOIN holdfast.jobs ON jobs.lane = lanes.id AND jobs.worker_id IS NOT NULL
WHERE lanes.kind = ANY (CAST(:kinds AS text[]))
GROUP BY lanes.kind;

-- name: claim_running
SELECT lanes.downstream, count(*)
FROM holdfast.lanes
JOIN holdfast.jobs ON jobs.lane = lanes.id AND jobs.worker_id IS NOT NULL
WHERE lanes.downstream = ANY (CAST(:downstreams AS text[]))
GROUP BY lanes.downstream;

-- name: claim_running_owners
SELECT lanes.downstream, jobs.owner
FROM holdfast.lanes
JOIN holdfast.jobs ON jobs.lane = lanes.id AND jobs.worker_id IS NOT NULL
WHERE lanes.downstream = ANY (CAST(:downstreams AS text[])) AND jobs.owner IS NOT NULL;

-- name: claim_level_below
SELECT holdfast.level_below(:lanes, :level) AS priority;

-- Up to `most` owners from `start` on with ready jobs of one priority, in the order of their names.
-- name: claim_next_owners
WITH RECURSIVE found (number, owner) AS (
    SELECT 1, holdfast.next_owner(:lanes, :priority, :start)
    UNION ALL
    SELECT number + 1, holdfast.next_owner(:lanes, :priority, owner || chr(1))
    FROM found
    WHERE owner IS NOT NULL AND number < CAST(:most AS integer)
)
SELECT owner FROM found WHERE owner IS NOT NULL ORDER BY number;

-- The lane with the first job of an owner.
-- name: claim_lane_of_owner
SELECT given.lane
FROM unnest(CAST(:lanes AS integer[])) AS given (lane)
CROSS JOIN LATERAL (
    SELECT jobs.ready_at, jobs.seq
    FROM holdfast.jobs
    WHERE jobs.ready
        AND jobs.lane = given.lane
        AND jobs.priority = CAST(:priority AS smallint)
        AND coalesce(jobs.owner, '') COLLATE "C" = :owner
    ORDER BY jobs.ready_at, jobs.seq
    LIMIT 1
) AS first
ORDER BY first.ready_at, first.seq
LIMIT 1;

-- name: claim_trial_leases
SELECT lanes.downstream, jobs.permit_trial, jobs.lease_expires_at
FROM unnest(CAST(:downstreams AS text[]), CAST(:generations AS bigint[]))
    AS given (downstream, generation)
JOIN holdfast.lanes ON lanes.downstream = given.downstream
JOIN holdfast.jobs ON jobs.lane = lanes.id AND jobs.worker_id IS NOT NULL
WHERE jobs.permit_trial IS NOT NULL AND jobs.permit_generation = given.generation;

-- name: claim_rate_spent
SELECT downstream, width, bucket, spent
FROM holdfast.rate_spent
WHERE downstream = ANY (CAST(:downstreams AS text[]));

-- name: claim_time_out
SELECT id, number FROM holdfast.time_out_ready(:lanes, :timeout, :now);

-- name: claim_plan
SELECT lane, priority, owner, quota
FROM holdfast.plan_claim(:lanes, :families, :most, :owners, :used);

-- name: claim_plan_with_room
SELECT lane, priority, owner, quota
FROM holdfast.plan_with_room(:lanes, :families, :most, :owners, :used, :remaining);

-- name: claim_waiting_owners
SELECT waiting.owner
FROM (
    SELECT array_agg(lane) AS lanes, min(last_owner) AS last_owner, min(used) AS used
    FROM unnest(
        CAST(:lanes AS integer[]), CAST(:families AS integer[]), CAST(:owners AS text[]),
        CAST(:used AS integer[])
    ) AS given (lane, family, last_owner, used)
    GROUP BY family
) AS family
CROSS JOIN LATERAL holdfast.waiting_owners(
    family.lanes, family.last_owner, family.used, :most, :remaining
) AS waiting (owner);

-- name: claim_take
SELECT *
FROM holdfast.take_jobs(
    :worker,
    ARRAY(
        SELECT ROW(given.lane, given.priority, given.owner, given.quota, NULL, NULL)::holdfast.subqueue
        FROM unnest(
            CAST(:subqueue_lanes AS integer[]), CAST(:priorities AS smallint[]),
            CAST(:owners AS text[]), CAST(:quotas AS integer[])
        ) AS given (lane, priority, owner, quota)
    ),
    CAST(:lanes AS integer[]), CAST(:generations AS bigint[]), :lease, :now
);

-- name: claim_lost_workers
SELECT seq FROM holdfast.jobs WHERE seq = ANY (CAST(:seqs AS bigint[])) AND lost_worker;

-- name: claim_trials
UPDATE holdfast.jobs SET permit_trial = given.trial
FROM unnest(CAST(:seqs AS bigint[]), CAST(:trials AS bigint[])) AS given (seq, trial)
WHERE jobs.seq = given.seq;

-- name: claim_spend
INSERT INTO holdfast.rate_spent AS spending (downstream, width, bucket, spent)
SELECT downstream, width, bucket, spent
FROM unnest(
    CAST(:downstreams AS text[]), CAST(:widths AS double precision[]),
    CAST(:buckets AS bigint[]), CAST(:spent AS integer[])
) AS given (downstream, width, bucket, spent)
ON CONFLICT (downstream, width, bucket) DO UPDATE SET spent = spending.spent + excluded.spent;

-- name: claim_forget_spent
DELETE FROM holdfast.rate_spent
USING unnest(
    CAST(:downstreams AS text[]), CAST(:widths AS double precision[]), CAST(:buckets AS bigint[])
) AS given (downstream, width, bucket)
WHERE rate_spent.downstream = given.downstream
    AND rate_spent.width = given.width
    AND rate_spent.bucket < given.bucket;
