-- The outbox and the inbox. The first of each also runs on a caller's connection.

-- name: outbox_add
INSERT INTO holdfast_outbox (
    id, aggregate_id, message_type, payload, headers, created_at, due_at, delayed
)
SELECT
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, :now, :now + (value ->> 5),
    (value ->> 5) > 0
FROM json_each(:messages)
ORDER BY key;

-- A report ends the claim, so the same report that comes again finds another token.
-- name: outbox_report
UPDATE holdfast_outbox AS messages SET
    status = :status,
    token = token + (:status = 'pending'),
    retry_count = retry_count + (:error IS NOT NULL),
    error_message = CASE
        WHEN :status = 'published' THEN NULL
        ELSE coalesce(:error, error_message)
    END,
    processed_at = CASE WHEN :status <> 'pending' THEN :now END,
    claimable_at = CASE WHEN :status = 'pending' AND :delay > 0 THEN :now + :delay END
WHERE id = :id AND token = :token AND status = 'pending';

-- name: outbox_expire_claims
UPDATE holdfast_outbox SET claimable_at = NULL
WHERE status = 'pending' AND claimable_at IS NOT NULL AND claimable_at <= :now;

-- name: outbox_end_delays
UPDATE holdfast_outbox SET delayed = 0 WHERE delayed = 1 AND due_at <= :now;

-- Of the aggregates of which no message is claimed or waits for a retry.
-- name: outbox_claim
UPDATE holdfast_outbox SET claimable_at = :until, token = token + 1
WHERE seq IN (
    SELECT ready.seq FROM holdfast_outbox AS ready
    WHERE ready.status = 'pending' AND ready.claimable_at IS NULL AND ready.delayed = 0
        AND ready.aggregate_id NOT IN (
            SELECT waiting.aggregate_id FROM holdfast_outbox AS waiting
            WHERE waiting.status = 'pending' AND waiting.claimable_at IS NOT NULL
        )
    ORDER BY ready.seq
    LIMIT :limit
)
RETURNING seq, token, id, aggregate_id, message_type, payload, retry_count, created_at, headers;

-- name: outbox_next_wait
SELECT min(at) - :now
FROM (
    SELECT min(claimable_at) AS at FROM holdfast_outbox
    WHERE status = 'pending' AND claimable_at IS NOT NULL
    UNION ALL
    SELECT min(due_at) FROM holdfast_outbox WHERE delayed = 1
);

-- Whether a claim may find anything: a claim takes the lock that all writers share.
-- name: outbox_any_ready
SELECT
    EXISTS (
        SELECT 1 FROM holdfast_outbox
        WHERE status = 'pending' AND claimable_at IS NULL AND delayed = 0
    )
    OR EXISTS (SELECT 1 FROM holdfast_outbox WHERE delayed = 1 AND due_at <= :now)
    OR EXISTS (
        SELECT 1 FROM holdfast_outbox
        WHERE status = 'pending' AND claimable_at IS NOT NULL AND claimable_at <= :now
    );

-- fragment: message_columns
id, aggregate_id, message_type, payload, status, retry_count, error_message, created_at, processed_at,
due_at, headers

-- name: outbox_get
SELECT {{message_columns}} FROM holdfast_outbox WHERE id = :id;

-- name: outbox_list
SELECT {{message_columns}} FROM holdfast_outbox WHERE id < :before ORDER BY id DESC LIMIT :limit;

-- name: outbox_list_pending
SELECT {{message_columns}} FROM holdfast_outbox
WHERE status = 'pending' AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: outbox_list_published
SELECT {{message_columns}} FROM holdfast_outbox
WHERE status = 'published' AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: outbox_list_failed
SELECT {{message_columns}} FROM holdfast_outbox
WHERE status = 'failed' AND id < :before
ORDER BY id DESC LIMIT :limit;

-- With a new number: the messages that were added after it have been published already.
-- name: outbox_requeue
UPDATE holdfast_outbox
SET
    status = 'pending', seq = (SELECT max(seq) + 1 FROM holdfast_outbox), retry_count = 0,
    processed_at = NULL, due_at = :now
WHERE id = :id AND status = 'failed'
RETURNING id;

-- name: outbox_discard
DELETE FROM holdfast_outbox WHERE id = :id AND status = 'failed' RETURNING id;

-- name: outbox_erase
DELETE FROM holdfast_outbox WHERE aggregate_id IN (SELECT value FROM json_each(:aggregates)) RETURNING id;

-- name: outbox_backlog
SELECT
    (SELECT count(*) FROM (
        SELECT 1 FROM holdfast_outbox
        WHERE status = 'pending' AND claimable_at IS NULL AND delayed = 0
        LIMIT :most
    )),
    (SELECT count(*) FROM (
        SELECT 1 FROM holdfast_outbox
        WHERE status = 'pending' AND claimable_at IS NOT NULL
        LIMIT :most
    )),
    (SELECT count(*) FROM (SELECT 1 FROM holdfast_outbox WHERE status = 'failed' LIMIT :most)),
    max(
        coalesce(:now - (
            SELECT due_at FROM holdfast_outbox
            WHERE status = 'pending' AND claimable_at IS NULL AND delayed = 0
            ORDER BY seq LIMIT 1
        ), 0.0),
        coalesce(:now - (
            SELECT min(due_at) FROM holdfast_outbox
            WHERE status = 'pending' AND claimable_at IS NOT NULL
        ), 0.0)
    );

-- name: outbox_delete_published
DELETE FROM holdfast_outbox
WHERE seq IN (
    SELECT seq FROM holdfast_outbox
    WHERE status = 'published' AND processed_at <= :now - :max_age
    ORDER BY processed_at
    LIMIT :limit
)
RETURNING id;

-- name: inbox_first
INSERT INTO holdfast_inbox (consumer, request_id, handled_at)
VALUES (:consumer, :request_id, :now)
ON CONFLICT (consumer, request_id) DO NOTHING
RETURNING request_id;

-- name: inbox_handled
SELECT 1 FROM holdfast_inbox WHERE consumer = :consumer AND request_id = :request_id;

-- name: inbox_delete
DELETE FROM holdfast_inbox
WHERE (consumer, request_id) IN (
    SELECT consumer, request_id FROM holdfast_inbox
    WHERE handled_at <= :now - :max_age
    ORDER BY handled_at
    LIMIT :limit
)
RETURNING request_id;
