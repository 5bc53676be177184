-- fragment: webhook_columns
id, url, owner, kinds, events, secret, since, created_at

-- The first webhook begins at its own time; later ones find the cursor at work.
-- name: webhook_begin
INSERT INTO holdfast_webhook_cursor AS webhook_cursor (id, sequence) VALUES (1, :since)
ON CONFLICT (id) DO UPDATE SET sequence = excluded.sequence
WHERE NOT EXISTS (SELECT 1 FROM holdfast_webhooks AS webhooks);

-- name: webhook_add
INSERT INTO holdfast_webhooks ({{webhook_columns}})
VALUES (:id, :url, :owner, :kinds, :events, :secret, :since, :now)
RETURNING {{webhook_columns}};

-- name: webhook_list
SELECT {{webhook_columns}} FROM holdfast_webhooks AS webhooks ORDER BY created_at, id;

-- name: webhook_newest
SELECT {{webhook_columns}} FROM holdfast_webhooks AS webhooks ORDER BY created_at DESC, id DESC LIMIT :limit;

-- name: webhook_list_of_owner
SELECT {{webhook_columns}} FROM holdfast_webhooks AS webhooks WHERE owner = :owner ORDER BY created_at, id;

-- name: webhook_find
SELECT {{webhook_columns}} FROM holdfast_webhooks AS webhooks WHERE id = :id;

-- name: webhook_remove
DELETE FROM holdfast_webhooks AS webhooks WHERE id = :id RETURNING id;

-- name: webhook_cursor
SELECT sequence FROM holdfast_webhook_cursor AS webhook_cursor WHERE id = 1;

-- name: webhook_move_cursor
UPDATE holdfast_webhook_cursor AS webhook_cursor SET sequence = :sequence WHERE id = 1 AND sequence < :sequence;

-- name: webhook_wait
SELECT awaited, waited FROM holdfast_webhook_waits AS webhook_waits WHERE leadership = :leadership;

-- name: webhook_note_wait
INSERT INTO holdfast_webhook_waits (leadership, awaited, waited) VALUES (:leadership, :awaited, :waited)
ON CONFLICT (leadership) DO UPDATE SET awaited = excluded.awaited, waited = excluded.waited;

-- Those of other leaderships whose deliveries are enqueued too: no worker may have their declarations any more.
-- name: webhook_end_wait
DELETE FROM holdfast_webhook_waits AS webhook_waits
WHERE leadership = :leadership OR awaited <= (SELECT sequence FROM holdfast_webhook_cursor AS webhook_cursor WHERE id = 1);
