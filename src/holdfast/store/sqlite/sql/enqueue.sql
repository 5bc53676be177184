-- Enqueueing. These also run on a caller's own connection, so they use no state of ours.
-- A row of :lanes is [queue, downstream, kind], one of :arguments [id, arguments], one of :jobs
-- [id, lane, kind, status, ready, priority, ready_at, max_attempts, deadline_at, dedup_key, owner,
-- meta], one of :rules [id, kind, dedup_key, unfinished, seconds], see holdfast.jobs.dedup.

-- A new lane counts as served now, which is the number of the last event: it waits for those that wait
-- already. The number is not that of the last event present, since retention deletes events.
-- name: enqueue_lanes
INSERT INTO holdfast_lanes AS lanes (queue, downstream, kind, held, served)
SELECT
    given.value ->> 0, given.value ->> 1, given.value ->> 2,
    coalesce((SELECT lanes_held FROM holdfast_downstreams AS downstreams WHERE name = given.value ->> 1), 0),
    coalesce((
        SELECT max(served) FROM holdfast_lanes AS lanes
        WHERE queue = given.value ->> 0 AND downstream = given.value ->> 1
    ), (SELECT seq FROM sqlite_sequence WHERE name = 'holdfast_events'), 0)
FROM jsonb_each(:lanes) AS given
WHERE true
ON CONFLICT DO NOTHING;

-- name: enqueue_lane_ids
SELECT lanes.queue, lanes.downstream, lanes.kind, lanes.id
FROM jsonb_each(:lanes) AS given
CROSS JOIN holdfast_lanes AS lanes
    ON lanes.queue = given.value ->> 0
    AND lanes.downstream = given.value ->> 1
    AND lanes.kind = given.value ->> 2;

-- Take the keys from jobs that do not count as twins.
-- name: enqueue_release_keys
UPDATE holdfast_jobs AS jobs SET dedup_key = NULL
FROM json_each(:rules) AS given
WHERE jobs.kind = given.value ->> 1
    AND jobs.dedup_key = given.value ->> 2
    AND jobs.dedup_key IS NOT NULL
    AND jobs.status <> 'failed'
    AND jobs.status <> 'cancelled'
    AND jobs.id <> given.value ->> 0
    AND (
        (given.value ->> 3 AND jobs.finished_at IS NOT NULL)
        OR jobs.created_at <= :now - (given.value ->> 4)
    );

-- name: enqueue_rules
UPDATE holdfast_jobs AS jobs SET
    dedup_unfinished = given.value ->> 3, dedup_seconds = given.value ->> 4
FROM json_each(:rules) AS given
WHERE jobs.id = given.value ->> 0 AND jobs.seq > :newest;

-- name: enqueue_newest
SELECT coalesce(max(seq), 0) FROM holdfast_jobs AS jobs;

-- name: enqueue_jobs
INSERT INTO holdfast_jobs AS jobs (
    id, lane, kind, status, ready, priority, ready_at, max_attempts, created_at, queued_at,
    deadline_at, dedup_key, owner, meta
)
SELECT
    value ->> 0,
    value ->> 1,
    value ->> 2,
    value ->> 3,
    value ->> 4,
    value ->> 5,
    value ->> 6,
    value ->> 7,
    :now,
    CASE WHEN value ->> 3 = 'queued' THEN :now END,
    value ->> 8,
    value ->> 9,
    value ->> 10,
    value ->> 11
FROM jsonb_each(:jobs)
WHERE true
ON CONFLICT DO NOTHING;

-- name: enqueue_created
SELECT changes();

-- name: enqueue_arguments
INSERT INTO holdfast_job_arguments AS job_arguments (job, arguments)
SELECT jobs.seq, given.value ->> 1
FROM jsonb_each(:arguments) AS given
CROSS JOIN holdfast_jobs AS jobs ON jobs.id = given.value ->> 0 AND jobs.seq > :newest
WHERE true
ON CONFLICT DO NOTHING;

-- name: enqueue_events
INSERT INTO holdfast_events AS events (job, name, at, attempt)
SELECT seq, status, :now, 0 FROM holdfast_jobs AS jobs WHERE seq > :newest ORDER BY seq;

-- name: enqueue_counts
UPDATE holdfast_lanes AS lanes SET
    uploaded = lanes.uploaded + new.uploaded,
    scheduled = lanes.scheduled + new.scheduled,
    ready = lanes.ready + new.ready
FROM (
    SELECT
        lane,
        sum(status = 'uploaded') AS uploaded,
        sum(status = 'queued' AND ready = 0) AS scheduled,
        sum(ready) AS ready
    FROM holdfast_jobs AS jobs
    WHERE seq > :newest
    GROUP BY lane
) AS new
WHERE lanes.id = new.lane;

-- name: enqueue_twins
SELECT
    given.key,
    own.seq,
    twin.id
FROM jsonb_each(:jobs) AS given
LEFT JOIN holdfast_jobs AS own ON own.id = given.value ->> 0
LEFT JOIN holdfast_jobs AS twin
    ON twin.kind = given.value ->> 2
    AND twin.dedup_key = given.value ->> 9
    AND twin.dedup_key IS NOT NULL
    AND twin.status <> 'failed'
    AND twin.status <> 'cancelled'
ORDER BY given.key;

-- A row of :jobs is [id, kind, dedup_key, unfinished, seconds]. Returns the places, from 0, of those that enqueueing
-- would not create.
-- name: enqueue_repeated
SELECT given.key
FROM json_each(:jobs) AS given
WHERE EXISTS (SELECT 1 FROM holdfast_jobs AS jobs WHERE jobs.id = given.value ->> 0)
    OR EXISTS (
        SELECT 1 FROM holdfast_jobs AS jobs
        WHERE jobs.kind = given.value ->> 1
            AND jobs.dedup_key = given.value ->> 2
            AND jobs.dedup_key IS NOT NULL
            AND jobs.status <> 'failed'
            AND jobs.status <> 'cancelled'
            AND (given.value ->> 3 AND jobs.finished_at IS NOT NULL) IS NOT TRUE
            AND (jobs.created_at <= :now - (given.value ->> 4)) IS NOT TRUE
    );

-- One job: the same with plain parameters, since reading them from JSON costs more than a job.
-- name: enqueue_one_lane
SELECT id FROM holdfast_lanes AS lanes
WHERE queue = :queue AND downstream = :downstream AND kind = :kind;

-- name: enqueue_one_job
INSERT INTO holdfast_jobs AS jobs (
    id, lane, kind, status, ready, priority, ready_at, max_attempts, created_at, queued_at,
    deadline_at, dedup_key, owner, meta
)
VALUES (
    :id, :lane, :kind, :status, :ready, :priority, :ready_at, :max_attempts, :now,
    CASE WHEN :status = 'queued' THEN :now END, :deadline_at, :dedup_key, :owner, :meta
)
ON CONFLICT DO NOTHING
RETURNING seq;

-- name: enqueue_one_arguments
INSERT INTO holdfast_job_arguments AS job_arguments (job, arguments) VALUES (:job, :arguments);

-- name: enqueue_one_event
INSERT INTO holdfast_events AS events (job, name, at, attempt) VALUES (:job, :status, :now, 0);

-- name: enqueue_one_count
UPDATE holdfast_lanes AS lanes SET
    uploaded = uploaded + (:status = 'uploaded'),
    scheduled = scheduled + (:status = 'queued' AND :ready = 0),
    ready = ready + :ready
WHERE id = :lane;
