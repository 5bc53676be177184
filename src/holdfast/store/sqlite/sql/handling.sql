-- Requests that consumers have begun: see holdfast.outbox.handling.

-- A message of a later round starts with a fresh number of attempts: a person has requeued it.
-- name: handling_begin
INSERT INTO holdfast_handling AS known (
    consumer, request_id, round, attempts, token, leased_until, updated_at
)
SELECT :consumer, :request_id, :round, 1, 1, :now + :seconds, :now
WHERE NOT EXISTS (
    SELECT 1 FROM holdfast_inbox WHERE consumer = :consumer AND request_id = :request_id
)
ON CONFLICT (consumer, request_id) DO UPDATE SET
    round = excluded.round,
    attempts = CASE WHEN excluded.round > known.round THEN 1 ELSE known.attempts + 1 END,
    token = known.token + 1,
    dead = 0,
    leased_until = excluded.leased_until,
    updated_at = excluded.updated_at
WHERE (known.leased_until IS NULL OR known.leased_until <= :now)
    AND (excluded.round > known.round OR (excluded.round = known.round AND known.dead = 0))
RETURNING attempts, token;

-- name: handling_get
SELECT round, dead, leased_until - :now
FROM holdfast_handling
WHERE consumer = :consumer AND request_id = :request_id;

-- name: handling_extend
UPDATE holdfast_handling SET leased_until = :now + :seconds, updated_at = :now
WHERE consumer = :consumer AND request_id = :request_id AND token = :token
    AND leased_until IS NOT NULL;

-- name: handling_end
DELETE FROM holdfast_handling
WHERE consumer = :consumer AND request_id = :request_id
RETURNING token;

-- name: handling_release
UPDATE holdfast_handling SET
    round = round + :replaced,
    attempts = attempts - :uncounted,
    dead = :dead,
    leased_until = NULL,
    updated_at = :now
WHERE consumer = :consumer AND request_id = :request_id AND token = :token
    AND leased_until IS NOT NULL
RETURNING token;

-- name: handling_delete
DELETE FROM holdfast_handling
WHERE (consumer, request_id) IN (
    SELECT consumer, request_id FROM holdfast_handling
    WHERE updated_at <= :now - :max_age
    ORDER BY updated_at
    LIMIT :limit
)
RETURNING request_id;
