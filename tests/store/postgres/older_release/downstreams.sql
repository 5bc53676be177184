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

-- name: downstream_create
INSERT INTO holdfast.downstreams (
    name, version, state, generation, open_until, settings, record, ramp_until, holds, needs_check
)
VALUES (
    :name, :version, :state, :generation, :open_until, :settings, :record, :ramp_until, :holds,
    :needs_check
)
ON CONFLICT (name) DO NOTHING;

-- name: downstream_write
UPDATE holdfast.downstreams SET
    version = :version + 1,
    state = :state,
    generation = :generation,
    open_until = :open_until,
    settings = :settings,
    record = :record,
    ramp_until = :ramp_until,
    holds = :holds,
    needs_check = :needs_check
WHERE name = :name AND version = :version
RETURNING version;
