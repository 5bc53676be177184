-- Downstreams.

-- When a record was last used, to the hour, in epoch seconds: retention deletes those of keys that nothing has used
-- for long. NULL for one that only the release before has written, until retention looks at it.
ALTER TABLE holdfast_downstreams ADD COLUMN used_at REAL;
-- The records of each keyed downstream, by what their names begin with: 'host:'; '' for those without a key.
CREATE INDEX holdfast_downstreams_by_use ON holdfast_downstreams (substr(name, 1, instr(name, ':')), used_at)
WHERE state = 'CLOSED';

-- Webhooks.

-- For how many seconds leaders have waited for the deliveries up to the event `awaited`, before they delete jobs.
ALTER TABLE holdfast_webhook_cursor ADD COLUMN awaited INTEGER;
ALTER TABLE holdfast_webhook_cursor ADD COLUMN waited REAL;

-- Dead letters.

-- Kinds declared with dead_letters=False: whatever ends a job of one, it does not become a dead letter.
CREATE TABLE holdfast_quiet_kinds (
    kind TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
