-- Downstream records. What a claim must see in SQL has columns, the rest is JSON text.

-- fragment: downstream_columns
name, version, state, generation, open_until, settings, record

-- name: downstream_get
SELECT {{downstream_columns}} FROM holdfast_downstreams AS downstreams WHERE name = :name;

-- name: downstream_list
SELECT {{downstream_columns}} FROM holdfast_downstreams AS downstreams ORDER BY name;

-- name: downstream_troubled
SELECT {{downstream_columns}} FROM holdfast_downstreams AS downstreams WHERE state <> 'CLOSED' ORDER BY name;

-- name: downstream_create
INSERT INTO holdfast_downstreams AS downstreams (name, version, state, generation, open_until, settings, record)
VALUES (:name, :version, :state, :generation, :open_until, :settings, :record)
ON CONFLICT (name) DO NOTHING;

-- A row of :retries is [id, token, when it may be tried again at the earliest].
-- name: downstream_release_trials
UPDATE holdfast_jobs AS jobs SET
    ready = given.value ->> 2 <= :now,
    ready_at = max(given.value ->> 2, :now)
FROM json_each(:retries) AS given
WHERE jobs.id = given.value ->> 0
    AND jobs.token = given.value ->> 1
    AND jobs.status = 'queued'
    AND jobs.ready = 0
    AND jobs.ready_at > max(given.value ->> 2, :now)
RETURNING seq, lane, ready;

-- name: downstream_write
UPDATE holdfast_downstreams AS downstreams SET
    version = :version + 1,
    state = :state,
    generation = :generation,
    open_until = :open_until,
    settings = :settings,
    record = :record,
    lanes_held = :lanes_held
WHERE name = :name AND version = :version;

-- name: downstream_hold_lanes
UPDATE holdfast_lanes AS lanes SET held = :held WHERE downstream = :name AND held <> :held;
