-- Limits of owners, see jobs/owner_port.py.

-- fragment: limit_columns
concurrency, rate, waiting, storage_bytes

-- name: owner_set
INSERT INTO holdfast_owner_limits AS owner_limits (owner, {{limit_columns}})
VALUES (:owner, :concurrency, :rate, :waiting, :storage_bytes)
ON CONFLICT (owner) DO UPDATE SET
    concurrency = excluded.concurrency,
    rate = excluded.rate,
    waiting = excluded.waiting,
    storage_bytes = excluded.storage_bytes
RETURNING owner;

-- name: owner_clear
DELETE FROM holdfast_owner_limits AS owner_limits WHERE owner = :owner RETURNING owner;

-- name: owner_forget_starts
DELETE FROM holdfast_owner_starts AS owner_starts WHERE owner = :owner RETURNING owner;

-- name: owner_get
SELECT {{limit_columns}} FROM holdfast_owner_limits AS owner_limits WHERE owner = :owner;

-- name: owner_list
SELECT owner, {{limit_columns}} FROM holdfast_owner_limits AS owner_limits
WHERE owner > :after
ORDER BY owner
LIMIT :limit;

-- name: owner_running
SELECT count(*) FROM holdfast_jobs AS jobs INDEXED BY holdfast_jobs_leased
WHERE lease_expires_at IS NOT NULL AND owner = :owner;

-- name: owner_unfinished
SELECT count(*)
FROM (
    SELECT 1 FROM holdfast_jobs AS jobs INDEXED BY holdfast_jobs_unfinished_of_owner
    WHERE owner = :owner AND owner IS NOT NULL AND finished_at IS NULL
    LIMIT :most
);

-- name: claim_owners_are_limited
SELECT owner FROM holdfast_owner_limits AS owner_limits INDEXED BY holdfast_owner_limits_of_claims
WHERE owner > '' AND (concurrency IS NOT NULL OR rate IS NOT NULL)
LIMIT 1;

-- One row per running job: to group them, SQLite would read an index of all jobs by owner.
-- name: claim_running_by_owner
SELECT owner FROM holdfast_jobs AS jobs INDEXED BY holdfast_jobs_leased
WHERE lease_expires_at IS NOT NULL AND owner IS NOT NULL;

-- name: claim_owner_spent
SELECT width, bucket, spent FROM holdfast_owner_starts AS owner_starts WHERE owner = :owner;

-- name: claim_owner_spend
INSERT INTO holdfast_owner_starts AS owner_starts (owner, width, bucket, spent, at)
VALUES (:owner, :width, :bucket, :spent, :now)
ON CONFLICT (owner, width, bucket) DO UPDATE SET spent = spent + excluded.spent, at = excluded.at;

-- name: claim_owner_forget_spent
DELETE FROM holdfast_owner_starts AS owner_starts
WHERE owner = :owner AND width = :width AND bucket < :oldest;

-- name: claim_owner_trim
DELETE FROM holdfast_owner_starts AS owner_starts WHERE at < :now - :kept;
