-- Downstream records. What claims read in SQL has columns, the rest is JSON text.

-- fragment: downstream_columns
name, version, state, generation, open_until, settings, record, parent, used_at

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

-- One that is present is locked, so that retention does not delete it meanwhile. The first version is the time in
-- microseconds: no record of that name that was deleted has had it, so a process that remembers one of those reads it
-- again.
-- name: downstream_create
INSERT INTO holdfast.downstreams (
    name, version, state, generation, open_until, settings, record, ramp_until, holds, needs_check,
    parent, used_at
)
VALUES (
    :name, CAST(holdfast.time_of(:now) * 1000000 AS bigint), :state, :generation, :open_until,
    :settings, :record, :ramp_until, :holds, :needs_check, :parent, holdfast.time_of(:now)
)
ON CONFLICT (name) DO UPDATE SET used_at = excluded.used_at
WHERE downstreams.used_at < excluded.used_at - holdfast.use_noted_every();

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
    needs_check = given.needs_check,
    parent = given.parent,
    -- Mostly unchanged, so that the row is updated without its indexes.
    used_at = CASE
        WHEN given.parent IS NULL OR downstreams.used_at > present.at - holdfast.use_noted_every()
        THEN downstreams.used_at
        ELSE present.at
    END
FROM holdfast.time_of(:now) AS present (at), unnest(
    CAST(:name AS text[]), CAST(:version AS bigint[]), CAST(:state AS text[]),
    CAST(:generation AS bigint[]), CAST(:open_until AS double precision[]),
    CAST(:settings AS text[]), CAST(:record AS text[]), CAST(:ramp_until AS double precision[]),
    CAST(:holds AS boolean[]), CAST(:needs_check AS boolean[]), CAST(:parent AS text[])
) AS given (
    name, version, state, generation, open_until, settings, record, ramp_until, holds, needs_check,
    parent
)
WHERE downstreams.name = given.name AND downstreams.version = given.version
RETURNING downstreams.name;

-- name: downstream_used
UPDATE holdfast.downstreams SET used_at = holdfast.time_of(:now)
WHERE name = :name
    AND parent IS NOT NULL
    AND used_at < holdfast.time_of(:now) - holdfast.use_noted_every();

-- name: downstream_delete_unused
SELECT holdfast.delete_unused_downstreams(:name, :unused_for, :limit, :now);
