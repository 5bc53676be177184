-- The outbox and the inbox. The first of each also runs on a caller's connection.

-- name: outbox_add
SELECT holdfast.add_messages(
    CAST(:ids AS text[]), CAST(:aggregates AS text[]), CAST(:types AS text[]),
    CAST(:payloads AS text[]), CAST(:headers AS text[]), CAST(:delays AS double precision[]),
    CAST(:system AS text), CAST(:database AS text), CAST(:now AS double precision)
);

-- One message, for each of which a caller pays: no function, whose expressions PL/pgSQL would prepare anew in
-- each transaction, no arrays, and a check that reads neither a table nor a file. No row, and nothing is added,
-- where this is not the database `:database` of the server that was started at `:server_start`.
-- name: outbox_add_one
INSERT INTO holdfast.outbox (
    id, aggregate_id, message_type, payload, headers, created_at, due_at, delayed
)
SELECT
    CAST(:id AS text), CAST(:aggregate AS text), CAST(:type AS text), CAST(:payload AS text),
    CAST(:headers AS text), given.t, given.t + CAST(:delay AS double precision),
    CAST(:delay AS double precision) > 0
FROM (SELECT holdfast.time_of(CAST(:now AS double precision)) AS t OFFSET 0) AS given
WHERE CAST(:database AS text) = current_database()
    AND CAST(:server_start AS text) = CAST(extract(epoch FROM pg_postmaster_start_time()) AS text)
RETURNING pg_notify('holdfast', 'outbox');

-- name: outbox_insert
SELECT holdfast.insert_messages(:ids, :aggregates, :types, :payloads, :headers, :delays, :now);

-- name: outbox_tick
SELECT
    refused, wake_in, seq, token, id, aggregate_id, message_type, payload, retry_count, created_at,
    headers
FROM holdfast.relay_tick(
    :ids, :tokens, :statuses, :errors, :delays, CAST(:limit AS integer), :seconds, :now
);

-- fragment: message_columns
id, aggregate_id, message_type, payload, status, retry_count, error_message, created_at, processed_at,
due_at, headers

-- name: outbox_get
SELECT {{message_columns}} FROM holdfast.outbox WHERE id = :id;

-- name: outbox_list
SELECT {{message_columns}} FROM holdfast.outbox WHERE id < :before ORDER BY id DESC LIMIT :limit;

-- name: outbox_list_pending
SELECT {{message_columns}} FROM holdfast.outbox
WHERE status = 'pending' AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: outbox_list_published
SELECT {{message_columns}} FROM holdfast.outbox
WHERE status = 'published' AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: outbox_list_failed
SELECT {{message_columns}} FROM holdfast.outbox
WHERE status = 'failed' AND id < :before
ORDER BY id DESC LIMIT :limit;

-- With a new number: the messages that were added after it have been published already.
-- name: outbox_requeue
UPDATE holdfast.outbox
SET
    status = 'pending', seq = DEFAULT, retry_count = 0, processed_at = NULL,
    due_at = holdfast.time_of(:now)
WHERE id = :id AND status = 'failed'
RETURNING id;

-- name: outbox_discard
DELETE FROM holdfast.outbox WHERE id = :id AND status = 'failed' RETURNING id;

-- name: outbox_erase
DELETE FROM holdfast.outbox WHERE aggregate_id = ANY (CAST(:aggregates AS text[])) RETURNING id;

-- name: outbox_backlog
SELECT
    (SELECT count(*) FROM (
        SELECT FROM holdfast.outbox
        WHERE status = 'pending' AND claimable_at IS NULL AND NOT delayed
        LIMIT :most
    ) AS ready),
    (SELECT count(*) FROM (
        SELECT FROM holdfast.outbox WHERE status = 'pending' AND claimable_at IS NOT NULL LIMIT :most
    ) AS waiting),
    (SELECT count(*) FROM (
        SELECT FROM holdfast.outbox WHERE status = 'failed' LIMIT :most
    ) AS failed),
    holdfast.time_of(:now) - least(
        (
            SELECT due_at FROM holdfast.outbox
            WHERE status = 'pending' AND claimable_at IS NULL AND NOT delayed ORDER BY seq LIMIT 1
        ),
        (
            SELECT min(due_at) FROM holdfast.outbox
            WHERE status = 'pending' AND claimable_at IS NOT NULL
        )
    );

-- Deletions choose their rows as an array of places: with IN, a plan that does not know the limit reads the whole
-- table for each page of rows.
-- name: outbox_delete_published
DELETE FROM holdfast.outbox
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM holdfast.outbox
    WHERE status = 'published' AND processed_at <= holdfast.time_of(:now) - :max_age
    ORDER BY processed_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
))
RETURNING id;

-- name: inbox_first
SELECT holdfast.record_request(
    CAST(:consumer AS text), CAST(:request_id AS text), CAST(:server_start AS text),
    CAST(:database AS text), CAST(:now AS double precision)
);

-- name: inbox_handled
SELECT 1 FROM holdfast.inbox WHERE consumer = :consumer AND request_id = :request_id;

-- name: inbox_delete
DELETE FROM holdfast.inbox
WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM holdfast.inbox
    WHERE handled_at <= holdfast.time_of(:now) - :max_age
    ORDER BY handled_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
))
RETURNING request_id;
