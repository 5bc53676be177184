-- Downstreams.

-- The downstream whose key made the record: 'host' of 'host:example.org'. Retention deletes those that nothing has
-- used for long. NULL for all others, and for those that the release before has made: they are never deleted.
ALTER TABLE holdfast.downstreams ADD COLUMN parent text COLLATE "C";
-- When it was last used, to the hour, in epoch seconds; kept only where there is a parent.
ALTER TABLE holdfast.downstreams ADD COLUMN used_at double precision;
CREATE INDEX downstreams_by_use ON holdfast.downstreams (parent, used_at)
WHERE parent IS NOT NULL AND state = 'CLOSED';

-- Webhooks.

-- For how many seconds leaders have waited for the deliveries up to the event `awaited`, before they delete jobs.
ALTER TABLE holdfast.webhook_cursor ADD COLUMN awaited bigint;
ALTER TABLE holdfast.webhook_cursor ADD COLUMN waited double precision;

-- Dead letters.

-- Kinds declared with dead_letters=False: whatever ends a job of one, it does not become a dead letter.
CREATE TABLE holdfast.quiet_kinds (
    kind text COLLATE "C" PRIMARY KEY
);
