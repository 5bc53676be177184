-- Downstreams.

-- When a record was last used, to the hour, in epoch seconds: retention deletes those of keys that nothing has used
-- for long. Records that are there already count as used now; the default serves workers of the release before.
ALTER TABLE holdfast.downstreams ADD COLUMN used_at double precision NOT NULL
    DEFAULT extract(epoch FROM now())::double precision;
-- The records of each keyed downstream, by what their names begin with: 'host:'; '' for those without a key.
CREATE INDEX downstreams_by_use ON holdfast.downstreams (substr(name, 1, strpos(name, ':')), used_at)
WHERE state = 'CLOSED';

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
