-- Downstreams.

-- When a record was last used, to the hour, in epoch seconds: retention deletes those of keys that nothing has used
-- for long. NULL for one that only the release before has written, until retention looks at it.
ALTER TABLE holdfast_downstreams ADD COLUMN used_at REAL;
-- The records of each keyed downstream, by what their names begin with: 'host:'; '' for those without a key.
CREATE INDEX holdfast_downstreams_by_use ON holdfast_downstreams (substr(name, 1, instr(name, ':')), used_at)
WHERE state = 'CLOSED';

-- Webhooks.

-- For how many seconds the leaders of a leadership have waited for the deliveries up to the event `awaited`, before
-- they delete jobs.
CREATE TABLE holdfast_webhook_waits (
    leadership TEXT PRIMARY KEY,
    awaited    INTEGER NOT NULL,
    waited     REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- Dead letters.

-- Kinds declared with dead_letters=False. A job of one that the store itself ends, as at its deadline, is no dead
-- letter. One that no app declares any more stays: at most its last jobs follow it.
CREATE TABLE holdfast_kinds_without_dead_letters (
    kind TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
