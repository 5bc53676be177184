-- Downstreams.

-- The downstream whose key made the record: 'host' of 'host:example.org'. Retention deletes those that nothing has
-- used for long. NULL for all others, and for those that the release before has made: they are never deleted.
ALTER TABLE holdfast_downstreams ADD COLUMN parent TEXT;
-- When it was last used, to the hour, in epoch seconds; kept only where there is a parent.
ALTER TABLE holdfast_downstreams ADD COLUMN used_at REAL;
CREATE INDEX holdfast_downstreams_by_use ON holdfast_downstreams (parent, used_at)
WHERE parent IS NOT NULL;

-- Jobs.

-- Whether a worker died, or lost its lease, while it ran the job: the job may be what kills workers. Until it is retried
-- by hand.
ALTER TABLE holdfast_jobs ADD COLUMN lost_worker INTEGER NOT NULL DEFAULT 0;

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
