-- Downstreams.

-- The downstream whose key made the record: 'host' of 'host:example.org'. Retention deletes those that nothing has
-- used for long. NULL for all others, and for those that the release before has made: they are never deleted.
ALTER TABLE holdfast.downstreams ADD COLUMN parent text COLLATE "C";
-- When it was last used, to the hour, in epoch seconds; kept only where there is a parent.
ALTER TABLE holdfast.downstreams ADD COLUMN used_at double precision;
CREATE INDEX downstreams_by_use ON holdfast.downstreams (parent, used_at)
WHERE parent IS NOT NULL;

-- Jobs.

-- Whether a worker died, or lost its lease, while it ran the job: the job may be what kills workers. Until it is retried
-- by hand.
ALTER TABLE holdfast.jobs ADD COLUMN lost_worker boolean NOT NULL DEFAULT false;

-- Webhooks.

-- For how many seconds the leaders of a leadership have waited for the deliveries up to the event `awaited`, before
-- they delete jobs.
CREATE TABLE holdfast.webhook_waits (
    leadership text COLLATE "C" PRIMARY KEY,
    awaited    bigint NOT NULL,
    waited     double precision NOT NULL
);

-- Dead letters.

-- Kinds declared with dead_letters=False. A job of one that the store itself ends, as at its deadline, is no dead
-- letter. One that no app declares any more stays: at most its last jobs follow it.
CREATE TABLE holdfast.kinds_without_dead_letters (
    kind text COLLATE "C" PRIMARY KEY
);
