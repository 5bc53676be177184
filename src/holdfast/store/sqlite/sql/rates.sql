-- Rates that all processes share, see jobs/rate_port.py.

-- name: rate_get
SELECT given, last_start, kept FROM holdfast_rates AS rates WHERE name = :name;

-- name: rate_starts
SELECT number, start_at FROM holdfast_rate_starts AS rate_starts
WHERE name = :name AND number IN (SELECT value FROM json_each(:numbers));

-- name: rate_give
INSERT INTO holdfast_rates AS rates (name, given, last_start, kept)
VALUES (:name, :number, :start, :kept)
ON CONFLICT (name) DO UPDATE SET given = :number, last_start = :start, kept = :kept;

-- name: rate_add_start
INSERT INTO holdfast_rate_starts AS rate_starts (name, number, start_at)
VALUES (:name, :number, :start);

-- name: rate_forget_starts
DELETE FROM holdfast_rate_starts AS rate_starts
WHERE name = :name AND number <= :number - :kept;
