-- The schedules of periodic jobs.

-- name: schedule_list
SELECT
    name, schedule, missed, overlap, handled_until, declared_at, seen_at, next_slot, last_slot, last_job,
    paused_at, resumed_at, version
FROM holdfast.schedules
ORDER BY name COLLATE "C";

-- name: schedule_create
INSERT INTO holdfast.schedules (
    name, version, schedule, missed, overlap, handled_until, next_slot, last_slot, last_job,
    paused_at, resumed_at, declared_at, seen_at
)
VALUES (
    :name, :version, :schedule, :missed, :overlap, :handled_until, :next_slot, :last_slot,
    :last_job, :paused_at, :resumed_at, :declared_at, :seen_at
)
ON CONFLICT (name) DO NOTHING;

-- name: schedule_write
UPDATE holdfast.schedules SET
    version = version + 1,
    schedule = :schedule,
    missed = :missed,
    overlap = :overlap,
    handled_until = :handled_until,
    next_slot = :next_slot,
    last_slot = :last_slot,
    last_job = :last_job,
    paused_at = :paused_at,
    resumed_at = :resumed_at,
    declared_at = :declared_at,
    seen_at = :seen_at
WHERE name = :name AND version = :version
RETURNING version;
