-- Reading. Whether a job is held is judged at :now.

-- fragment: job_columns
jobs.seq, jobs.id, jobs.kind, lanes.queue, nullif(lanes.downstream, '') AS downstream,
    jobs.status::text, jobs.priority, jobs.attempt_count, jobs.max_attempts, jobs.manual_retry_count,
    jobs.token, jobs.created_at, jobs.queued_at, jobs.ready_at, jobs.started_at,
    jobs.last_attempt_at, jobs.finished_at, jobs.deadline_at, jobs.dedup_key, jobs.owner,
    jobs.meta, jobs.progress, jobs.progress_note, jobs.worker_id, jobs.lease_expires_at,
    jobs.cancel_requested, jobs.result, jobs.error_code, jobs.error_message, jobs.dead_letter,
    CASE
        WHEN jobs.status <> 'queued' OR jobs.ready_at > moment.at THEN NULL
        WHEN EXISTS (
            SELECT FROM holdfast.pauses
            WHERE pauses.scope = 'queue' AND pauses.name = lanes.queue
        ) THEN 'queue'
        WHEN EXISTS (
            SELECT FROM holdfast.pauses WHERE pauses.scope = 'kind' AND pauses.name = lanes.kind
        ) THEN 'kind'
        -- No EXISTS: PostgreSQL 18 would read the whole table for it.
        WHEN (
            SELECT downstreams.held_until > moment.at
            FROM holdfast.downstreams WHERE downstreams.name = lanes.downstream
        ) THEN 'downstream'
    END AS held_by,
    CASE
        WHEN jobs.status = 'queued' AND jobs.token > 0 OR jobs.status = 'processing' AND jobs.token > 1
            THEN holdfast.last_error(jobs.seq, jobs.last_event)
    END AS last_error,
    CASE
        WHEN jobs.status = 'failed' AND jobs.dedup_unfinished IS NULL THEN (
            SELECT true FROM holdfast.jobs AS twin
            WHERE twin.kind = jobs.kind
                AND twin.dedup_key = jobs.dedup_key
                AND twin.dedup_key IS NOT NULL
                AND twin.status <> 'failed'
                AND twin.status <> 'cancelled'
        )
    END AS has_twin

-- fragment: job_details
JOIN holdfast.lanes ON lanes.id = jobs.lane
CROSS JOIN holdfast.time_of(CAST(:now AS double precision)) AS moment (at)

-- fragment: job_filter
(CAST(:statuses AS text[]) IS NULL
        OR jobs.status = ANY (CAST(CAST(:statuses AS text[]) AS holdfast.status[])))
    AND (CAST(:kinds AS text[]) IS NULL OR jobs.kind = ANY (:kinds))
    AND (CAST(:queue AS text) IS NULL OR lanes.queue = :queue)
    AND (CAST(:downstream AS text) IS NULL OR lanes.downstream = :downstream)
    AND (CAST(:owner AS text) IS NULL OR jobs.owner = :owner)
    AND (CAST(:id AS text) IS NULL OR jobs.id = :id)
    AND (CAST(:error_code AS text) IS NULL OR jobs.error_code = :error_code)
    AND (CAST(:error_text AS text) IS NULL OR strpos(jobs.error_message, :error_text) > 0)
    AND (CAST(:error_group AS text) IS NULL OR jobs.error_group = :error_group)
    AND (CAST(:min_attempts AS integer) IS NULL OR jobs.attempt_count >= :min_attempts)
    AND (CAST(:created_from AS double precision) IS NULL OR jobs.created_at >= :created_from)
    AND (CAST(:created_to AS double precision) IS NULL OR jobs.created_at < :created_to)
    AND (
        CAST(:text AS text) IS NULL
        OR strpos(jobs.id, :text) > 0
        OR strpos(jobs.kind, :text) > 0
        OR strpos(jobs.owner, :text) > 0
        OR strpos(jobs.error_message, :text) > 0
        OR strpos(jobs.meta, :text) > 0
    )
    AND jobs.seq >= :floor

-- name: read_job
SELECT {{job_columns}}, jobs.arguments
FROM holdfast.jobs
{{job_details}}
WHERE jobs.seq = holdfast.job_of(:id);

-- The same list by different indexes; see holdfast.store.postgres.queries.
-- name: read_jobs
SELECT {{job_columns}}
FROM holdfast.jobs
{{job_details}}
WHERE jobs.seq < :before AND {{job_filter}}
ORDER BY jobs.seq DESC
LIMIT :limit;

-- name: read_jobs_of_id
SELECT {{job_columns}}
FROM holdfast.jobs
{{job_details}}
WHERE jobs.seq = holdfast.job_of(:id) AND jobs.seq < :before AND {{job_filter}}
ORDER BY jobs.seq DESC
LIMIT :limit;

-- name: read_jobs_of_owner
SELECT {{job_columns}}
FROM holdfast.ids
JOIN holdfast.jobs ON jobs.seq = ids.job
{{job_details}}
WHERE ids.owner = :owner
    AND ids.owner IS NOT NULL
    AND ids.job < :before
    AND {{job_filter}}
ORDER BY ids.job DESC
LIMIT :limit;

-- name: read_jobs_waiting
SELECT {{job_columns}}
FROM holdfast.jobs
{{job_details}}
WHERE jobs.status IN ('uploaded', 'queued') AND jobs.seq < :before AND {{job_filter}}
ORDER BY jobs.seq DESC
LIMIT :limit;

-- The newest waiting and the newest running jobs. The latter are few, and all are read.
-- name: read_jobs_unfinished
SELECT *
FROM (
    (
        SELECT {{job_columns}}
        FROM holdfast.jobs
        {{job_details}}
        WHERE jobs.status IN ('uploaded', 'queued') AND jobs.seq < :before AND {{job_filter}}
        ORDER BY jobs.seq DESC
        LIMIT :limit
    )
    UNION ALL
    (
        SELECT {{job_columns}}
        FROM holdfast.jobs
        {{job_details}}
        WHERE jobs.worker_id IS NOT NULL AND jobs.seq < :before AND {{job_filter}}
        ORDER BY jobs.seq DESC
        LIMIT :limit
    )
) AS unfinished
ORDER BY seq DESC
LIMIT :limit;

-- name: read_jobs_unsuccessful
SELECT {{job_columns}}
FROM holdfast.jobs
{{job_details}}
WHERE jobs.status IN ('failed', 'cancelled') AND jobs.seq < :before AND {{job_filter}}
ORDER BY jobs.seq DESC
LIMIT :limit;

-- The job at which a search of each of these lists stops: the one in place :window from :before on.
-- name: floor_read_jobs
SELECT seq, created_at FROM holdfast.jobs
WHERE seq = (
    SELECT seq FROM holdfast.jobs
    WHERE seq < :before
    ORDER BY seq DESC
    LIMIT 1 OFFSET CAST(:window AS bigint) - 1
);

-- name: floor_read_jobs_of_owner
SELECT seq, created_at FROM holdfast.jobs
WHERE seq = (
    SELECT job FROM holdfast.ids
    WHERE owner = :owner AND owner IS NOT NULL AND job < :before
    ORDER BY job DESC
    LIMIT 1 OFFSET CAST(:window AS bigint) - 1
);

-- name: floor_read_jobs_waiting
SELECT seq, created_at FROM holdfast.jobs
WHERE seq = (
    SELECT seq FROM holdfast.jobs
    WHERE status IN ('uploaded', 'queued') AND seq < :before
    ORDER BY seq DESC
    LIMIT 1 OFFSET CAST(:window AS bigint) - 1
);

-- name: floor_read_jobs_unfinished
SELECT seq, created_at FROM holdfast.jobs
WHERE seq = (
    SELECT seq
    FROM (
        (
            SELECT seq FROM holdfast.jobs
            WHERE status IN ('uploaded', 'queued') AND seq < :before
            ORDER BY seq DESC
            LIMIT :window
        )
        UNION ALL
        SELECT seq FROM holdfast.jobs
        WHERE worker_id IS NOT NULL AND seq < :before
    ) AS unfinished
    ORDER BY seq DESC
    LIMIT 1 OFFSET CAST(:window AS bigint) - 1
);

-- name: floor_read_jobs_unsuccessful
SELECT seq, created_at FROM holdfast.jobs
WHERE seq = (
    SELECT seq FROM holdfast.jobs
    WHERE status IN ('failed', 'cancelled') AND seq < :before
    ORDER BY seq DESC
    LIMIT 1 OFFSET CAST(:window AS bigint) - 1
);

-- name: read_dead_letters
SELECT {{job_columns}}
FROM holdfast.jobs
{{job_details}}
WHERE jobs.dead_letter IS NOT NULL
    AND (jobs.finished_at, jobs.seq) < (CAST(:before_at AS double precision), :before)
    AND (jobs.finished_at, jobs.seq) >= (CAST(:floor_at AS double precision), :floor_seq)
    AND {{job_filter}}
ORDER BY jobs.finished_at DESC, jobs.seq DESC
LIMIT :limit;

-- The dead letter at which a search stops: the one in place :window from :before_at on.
-- name: floor_read_dead_letters
SELECT finished_at, seq FROM holdfast.jobs
WHERE dead_letter IS NOT NULL
    AND (finished_at, seq) < (CAST(:before_at AS double precision), :before)
ORDER BY finished_at DESC, seq DESC
LIMIT 1 OFFSET CAST(:window AS bigint) - 1;

-- name: read_dead_letters_of_group
SELECT {{job_columns}}
FROM holdfast.jobs
{{job_details}}
WHERE jobs.dead_letter IS NOT NULL
    AND jobs.kind = :kind
    AND jobs.error_code = :error_code
    AND jobs.error_group = :error_group
    AND (jobs.finished_at, jobs.seq) < (CAST(:before_at AS double precision), :before)
    AND {{job_filter}}
ORDER BY jobs.finished_at DESC, jobs.seq DESC
LIMIT :limit;

-- name: read_dead_letter_groups
SELECT
    groups.kind, groups.code, groups.message, groups.count, newest.finished_at, newest.id,
    oldest.finished_at, oldest.id
FROM (
    SELECT a AS kind, b AS code, c AS message, sum(count)::bigint AS count
    FROM (
        SELECT a, b, c, count FROM holdfast.counters WHERE family = 'dead'
        UNION ALL
        SELECT a, b, c, delta FROM holdfast.counter_deltas WHERE family = 'dead'
    ) AS counted
    GROUP BY a, b, c
    HAVING sum(count) > 0
    ORDER BY sum(count) DESC, a COLLATE "C", c COLLATE "C"
    LIMIT :limit
) AS groups
CROSS JOIN LATERAL (
    SELECT jobs.id, jobs.finished_at
    FROM holdfast.jobs
    WHERE jobs.kind = groups.kind
        AND jobs.error_code = groups.code
        AND jobs.error_group = groups.message
        AND jobs.dead_letter IS NOT NULL
    ORDER BY jobs.finished_at DESC, jobs.seq DESC
    LIMIT 1
) AS newest
CROSS JOIN LATERAL (
    SELECT jobs.id, jobs.finished_at
    FROM holdfast.jobs
    WHERE jobs.kind = groups.kind
        AND jobs.error_code = groups.code
        AND jobs.error_group = groups.message
        AND jobs.dead_letter IS NOT NULL
    ORDER BY jobs.finished_at, jobs.seq
    LIMIT 1
) AS oldest
ORDER BY groups.count DESC, groups.kind COLLATE "C", groups.message COLLATE "C";

-- name: read_events
SELECT
    line.sequence, jobs.id, jobs.kind, jobs.owner, line.name, line.at, line.attempt,
    line.duration, line.error_code, line.meta
FROM holdfast.jobs
CROSS JOIN LATERAL holdfast.history_of(ARRAY[jobs.seq]) AS line
WHERE jobs.seq = holdfast.job_of(:id)
ORDER BY line.sequence;

-- name: read_attempts
SELECT
    line.attempt, line.token, line.worker_id, line.started_at, line.at, line.duration,
    line.outcome::text, line.error_code, line.error_message, line.retry_after, line.meta,
    line.traceback
FROM holdfast.history_of(ARRAY[holdfast.job_of(:id)]) AS line
WHERE line.outcome IS NOT NULL
UNION ALL
SELECT
    jobs.attempt_count, jobs.token, jobs.worker_id, jobs.last_attempt_at, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL
FROM holdfast.jobs
WHERE jobs.seq = holdfast.job_of(:id) AND jobs.status = 'processing'
ORDER BY 2;

-- name: read_changes
SELECT * FROM holdfast.changes_since(:sequence, :owner, :limit);

-- name: read_has_changes
SELECT EXISTS (SELECT FROM holdfast.changes_since(:sequence, NULL, 1));

-- name: read_last_sequence
SELECT holdfast.settled_sequence();

-- name: read_late_results
SELECT late_results.token, late_results.received_at, late_results.result
FROM holdfast.late_results
WHERE late_results.job = holdfast.job_of(:id)
ORDER BY late_results.token;

-- name: read_lanes
SELECT id, queue, downstream, kind FROM holdfast.lanes ORDER BY queue, downstream, kind;

-- The oldest of each priority and owner that a lane has: one index lookup for each.
-- name: read_oldest_ready
WITH RECURSIVE heads (lane, priority, owner, ready_at) AS (
    (
        SELECT lane, priority, coalesce(owner, '') COLLATE "C", ready_at
        FROM holdfast.jobs
        WHERE ready
        ORDER BY lane, priority DESC, coalesce(owner, '') COLLATE "C", ready_at, seq
        LIMIT 1
    )
    UNION ALL
    SELECT next.lane, next.priority, next.owner, next.ready_at
    FROM heads
    CROSS JOIN LATERAL (
        SELECT * FROM (
            (
                SELECT
                    jobs.lane, jobs.priority, coalesce(jobs.owner, '') COLLATE "C" AS owner,
                    jobs.ready_at
                FROM holdfast.jobs
                WHERE ready
                    AND lane = heads.lane
                    AND priority = heads.priority
                    AND coalesce(owner, '') COLLATE "C" > heads.owner
                ORDER BY coalesce(owner, '') COLLATE "C", jobs.ready_at, seq
                LIMIT 1
            )
            UNION ALL
            (
                SELECT lane, priority, coalesce(owner, '') COLLATE "C", ready_at
                FROM holdfast.jobs
                WHERE ready AND lane = heads.lane AND priority < heads.priority
                ORDER BY priority DESC, coalesce(owner, '') COLLATE "C", jobs.ready_at, seq
                LIMIT 1
            )
            UNION ALL
            (
                SELECT lane, priority, coalesce(owner, '') COLLATE "C", ready_at
                FROM holdfast.jobs
                WHERE ready AND lane > heads.lane
                ORDER BY lane, priority DESC, coalesce(owner, '') COLLATE "C", jobs.ready_at, seq
                LIMIT 1
            )
        ) AS either
        LIMIT 1
    ) AS next
)
SELECT lanes.queue, lanes.downstream, min(heads.ready_at)
FROM heads
JOIN holdfast.lanes ON lanes.id = heads.lane
GROUP BY lanes.queue, lanes.downstream;

-- name: read_clock
SELECT extract(epoch FROM clock_timestamp())::double precision;
