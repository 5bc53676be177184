-- Requests that consumers have begun: see holdfast.outbox.handling.

-- name: handling_begin
SELECT attempts, token FROM holdfast.begin_request(:consumer, :request_id, :round, :seconds, :now);

-- name: handling_get
SELECT round, dead, leased_until - holdfast.time_of(:now)
FROM holdfast.handling
WHERE consumer = :consumer AND request_id = :request_id;

-- name: handling_extend
UPDATE holdfast.handling AS known SET
    leased_until = holdfast.time_of(:now) + :seconds,
    updated_at = holdfast.time_of(:now)
FROM unnest(CAST(:consumers AS text[]), CAST(:request_ids AS text[]), CAST(:tokens AS bigint[]))
    AS given (consumer, request_id, token)
WHERE known.consumer = given.consumer AND known.request_id = given.request_id
    AND known.token = given.token AND known.leased_until IS NOT NULL;

-- name: handling_finish
SELECT holdfast.handle_request(:consumer, :request_id, :now);

-- name: handling_release
SELECT holdfast.release_request(
    :consumer, :request_id, :token, :replaced, :uncounted, :dead, :ids, :aggregates, :types, :payloads,
    :headers, :delays, :now
);

-- name: handling_delete
DELETE FROM holdfast.handling
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM holdfast.handling
    WHERE updated_at <= holdfast.time_of(:now) - :max_age
    ORDER BY updated_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
))
RETURNING request_id;
