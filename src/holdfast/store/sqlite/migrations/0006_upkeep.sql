-- Downstreams.

-- The downstream whose key made the record: 'host' of 'host:example.org'. Retention deletes those that nothing has
-- used for long. NULL for all others, and for those that the release before has made: they are never deleted.
ALTER TABLE holdfast_downstreams ADD COLUMN parent TEXT;
-- When it was last used, to the hour, in epoch seconds; kept only where there is a parent.
ALTER TABLE holdfast_downstreams ADD COLUMN used_at REAL;
CREATE INDEX holdfast_downstreams_by_use ON holdfast_downstreams (parent, used_at)
WHERE parent IS NOT NULL AND state = 'CLOSED';

-- Webhooks.

-- For how many seconds leaders have waited for the deliveries up to the event `awaited`, before they delete jobs.
ALTER TABLE holdfast_webhook_cursor ADD COLUMN awaited INTEGER;
ALTER TABLE holdfast_webhook_cursor ADD COLUMN waited REAL;

-- Dead letters.

-- Kinds declared with dead_letters=False: whatever ends a job of one, it does not become a dead letter.
CREATE TABLE holdfast_quiet_kinds (
    kind TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
