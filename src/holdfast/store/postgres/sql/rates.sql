-- Rates that all processes share, see jobs/rate_port.py.

-- name: rate_lock
INSERT INTO holdfast.rates AS rates (name, kept)
VALUES (:name, :kept)
ON CONFLICT (name) DO UPDATE SET kept = greatest(rates.kept, excluded.kept)
RETURNING given, last_start;

-- The time is read after the lock was taken, which may have been waited for.
-- name: rate_starts
SELECT
    coalesce(CAST(:now AS double precision), extract(epoch FROM clock_timestamp())),
    coalesce(array_agg(rate_starts.number), '{}'),
    coalesce(array_agg(rate_starts.start_at), '{}')
FROM holdfast.rate_starts
WHERE rate_starts.name = :name AND rate_starts.number = ANY (CAST(:numbers AS bigint[]));

-- name: rate_give
WITH given AS (
    UPDATE holdfast.rates SET given = :number, last_start = :start
    WHERE name = :name
    RETURNING kept
), added AS (
    INSERT INTO holdfast.rate_starts (name, number, start_at) VALUES (:name, :number, :start)
)
DELETE FROM holdfast.rate_starts
USING given
WHERE rate_starts.name = :name AND rate_starts.number <= :number - given.kept;
