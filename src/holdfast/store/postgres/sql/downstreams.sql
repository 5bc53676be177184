-- Downstream records. What claims read in SQL has columns, the rest is JSON text.

-- fragment: downstream_columns
name, version, state, generation, open_until, settings, record

-- name: downstream_get
SELECT {{downstream_columns}} FROM holdfast.downstreams WHERE name = :name;

-- name: downstream_some
SELECT {{downstream_columns}}
FROM holdfast.downstreams
WHERE name = ANY (CAST(:names AS text[]));

-- name: downstream_list
SELECT {{downstream_columns}} FROM holdfast.downstreams ORDER BY name COLLATE "C";

-- All workers lock in the order of names, so that they cannot deadlock.
-- name: downstream_lock
SELECT {{downstream_columns}}
FROM holdfast.downstreams
WHERE name = ANY (CAST(:names AS text[]))
ORDER BY name COLLATE "C"
FOR UPDATE;

-- For locks that are taken out of that order: records that are locked already are left out.
-- name: downstream_lock_free
SELECT {{downstream_columns}}
FROM holdfast.downstreams
WHERE name = ANY (CAST(:names AS text[]))
ORDER BY name COLLATE "C"
FOR UPDATE SKIP LOCKED;

-- name: downstream_troubled
SELECT {{downstream_columns}} FROM holdfast.downstreams WHERE state <> 'CLOSED' ORDER BY name COLLATE "C";

-- name: downstream_create
INSERT INTO holdfast.downstreams (
    name, version, state, generation, open_until, settings, record, ramp_until, holds, needs_check
)
VALUES (
    :name, :version, :state, :generation, :open_until, :settings, :record, :ramp_until, :holds,
    :needs_check
)
ON CONFLICT (name) DO NOTHING;

-- name: downstream_release_trials
SELECT holdfast.release_trials(:ids, :tokens, :not_before, :now);

-- name: downstream_write
UPDATE holdfast.downstreams SET
    version = given.version + 1,
    state = given.state,
    generation = given.generation,
    open_until = given.open_until,
    settings = given.settings,
    record = given.record,
    ramp_until = given.ramp_until,
    holds = given.holds,
    needs_check = given.needs_check
FROM unnest(
    CAST(:name AS text[]), CAST(:version AS bigint[]), CAST(:state AS text[]),
    CAST(:generation AS bigint[]), CAST(:open_until AS double precision[]),
    CAST(:settings AS text[]), CAST(:record AS text[]), CAST(:ramp_until AS double precision[]),
    CAST(:holds AS boolean[]), CAST(:needs_check AS boolean[])
) AS given (
    name, version, state, generation, open_until, settings, record, ramp_until, holds, needs_check
)
WHERE downstreams.name = given.name AND downstreams.version = given.version
RETURNING downstreams.name;
