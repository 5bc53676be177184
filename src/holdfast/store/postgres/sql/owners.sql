-- Limits of owners, see jobs/owner_port.py.

-- fragment: limit_columns
concurrency, rate, waiting, storage_bytes

-- name: owner_set
INSERT INTO holdfast.owner_limits (owner, {{limit_columns}})
VALUES (:owner, :concurrency, :rate, :waiting, :storage_bytes)
ON CONFLICT (owner) DO UPDATE SET
    concurrency = excluded.concurrency,
    rate = excluded.rate,
    waiting = excluded.waiting,
    storage_bytes = excluded.storage_bytes
RETURNING owner;

-- name: owner_clear
DELETE FROM holdfast.owner_limits WHERE owner = :owner RETURNING owner;

-- name: owner_forget_starts
DELETE FROM holdfast.owner_starts WHERE owner = :owner RETURNING owner;

-- name: owner_get
SELECT {{limit_columns}} FROM holdfast.owner_limits WHERE owner = :owner;

-- name: owner_list
SELECT owner, {{limit_columns}} FROM holdfast.owner_limits
WHERE owner > :after
ORDER BY owner
LIMIT :limit;

-- All running jobs are read first: an index of owners would lead to every job that the owner has.
-- name: owner_running
WITH running AS MATERIALIZED (
    SELECT owner FROM holdfast.jobs WHERE worker_id IS NOT NULL
)
SELECT count(*) FROM running WHERE owner = :owner;

-- name: owner_unfinished
SELECT count(*)
FROM (
    SELECT FROM holdfast.jobs
    WHERE owner = :owner AND finished_at IS NULL
    LIMIT CAST(:most AS integer)
) AS unfinished;

-- One call at a time creates jobs of an owner whose limit is near.
-- name: enqueue_lock_owner
SELECT pg_advisory_xact_lock(hashtextextended('holdfast enqueue ' || CAST(:owner AS text), 0));

-- One claim at a time counts against the limits of owners.
-- name: claim_lock_owners
SELECT pg_advisory_xact_lock(hashtextextended('holdfast owners', 0));

-- name: claim_running_by_owner
SELECT owner, count(*) AS running
FROM holdfast.jobs
WHERE worker_id IS NOT NULL AND owner IS NOT NULL
GROUP BY owner;

-- Of these owners, those with limits of their own.
-- name: claim_limits_of_owners
SELECT owner, {{limit_columns}} FROM holdfast.owner_limits WHERE owner = ANY (CAST(:owners AS text[]));

-- name: claim_owner_spent
SELECT owner, width, bucket, spent FROM holdfast.owner_starts WHERE owner = ANY (CAST(:owners AS text[]));

-- name: claim_owner_spend
INSERT INTO holdfast.owner_starts AS starts (owner, width, bucket, spent, at)
SELECT owner, width, bucket, spent, :now
FROM unnest(
    CAST(:owners AS text[]), CAST(:widths AS double precision[]), CAST(:buckets AS bigint[]),
    CAST(:spent AS integer[])
) AS given (owner, width, bucket, spent)
ON CONFLICT (owner, width, bucket) DO UPDATE SET spent = starts.spent + excluded.spent, at = excluded.at;

-- name: claim_owner_forget_spent
DELETE FROM holdfast.owner_starts
USING unnest(CAST(:owners AS text[]), CAST(:widths AS double precision[]), CAST(:oldest AS bigint[]))
    AS given (owner, width, oldest)
WHERE owner_starts.owner = given.owner
    AND owner_starts.width = given.width
    AND owner_starts.bucket < given.oldest;

-- name: claim_owner_trim
DELETE FROM holdfast.owner_starts WHERE at < CAST(:now AS double precision) - CAST(:kept AS double precision);
