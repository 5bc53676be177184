-- Downstream records. What a claim must see in SQL has columns, the rest is JSON text.

-- fragment: downstream_columns
name, version, state, generation, open_until, settings, record, parent, used_at

-- name: downstream_get
SELECT {{downstream_columns}} FROM holdfast_downstreams AS downstreams WHERE name = :name;

-- name: downstream_list
SELECT {{downstream_columns}} FROM holdfast_downstreams AS downstreams ORDER BY name;

-- name: downstream_troubled
SELECT {{downstream_columns}} FROM holdfast_downstreams AS downstreams WHERE state <> 'CLOSED' ORDER BY name;

-- name: downstream_create
INSERT INTO holdfast_downstreams AS downstreams (
    name, version, state, generation, open_until, settings, record, parent, used_at
)
VALUES (:name, :version, :state, :generation, :open_until, :settings, :record, :parent, :used_at)
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
    parent = :parent,
    used_at = :used_at,
    lanes_held = :lanes_held
WHERE name = :name AND version = :version;

-- name: downstream_hold_lanes
UPDATE holdfast_lanes AS lanes SET held = :held WHERE downstream = :name AND held <> :held;

-- name: downstream_used
UPDATE holdfast_downstreams AS downstreams SET used_at = :used_at
WHERE name IN (SELECT value FROM json_each(:names));

-- A row of :ends is [lane, when the last of its deleted jobs finished].
-- name: downstream_used_by_jobs
UPDATE holdfast_downstreams AS downstreams SET used_at = new.used_at
FROM (
    SELECT lanes.downstream, max(ended.value ->> 1) AS used_at
    FROM json_each(:ends) AS ended
    CROSS JOIN holdfast_lanes AS lanes ON lanes.id = ended.value ->> 0
    GROUP BY lanes.downstream
) AS new
WHERE downstreams.name = new.downstream
    AND downstreams.parent IS NOT NULL
    AND downstreams.used_at < new.used_at - :noted_every;

-- A record is kept while it has jobs, while its breaker's window is longer than :unused_for, and while it is open: until
-- open_until, or, without one, because an operator holds it.
-- name: downstream_unused
SELECT
    name,
    EXISTS (SELECT 1 FROM holdfast_lanes AS lanes WHERE lanes.downstream = downstreams.name)
    OR coalesce(settings ->> '$.breaker.window_seconds', 0) > :unused_for
    OR (state = 'OPEN' AND coalesce(open_until > :now, TRUE)) AS is_kept
FROM holdfast_downstreams AS downstreams
WHERE parent = :parent AND used_at <= :now - :unused_for
ORDER BY used_at
LIMIT :limit;

-- name: downstream_delete
DELETE FROM holdfast_downstreams AS downstreams WHERE name IN (SELECT value FROM json_each(:names));

-- name: downstream_delete_spent
DELETE FROM holdfast_rate_spent AS rate_spent WHERE downstream IN (SELECT value FROM json_each(:names));
