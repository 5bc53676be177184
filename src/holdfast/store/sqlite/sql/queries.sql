-- Reading. :now decides whether a job is held.

-- fragment: job_columns
jobs.seq, jobs.id, jobs.kind, lanes.queue, nullif(lanes.downstream, '') AS downstream,
    jobs.status, jobs.priority, jobs.attempt_count, jobs.max_attempts, jobs.manual_retry_count,
    jobs.token, jobs.created_at, jobs.queued_at, jobs.ready_at, jobs.started_at,
    jobs.last_attempt_at, jobs.finished_at, jobs.deadline_at, jobs.dedup_key, jobs.owner,
    jobs.meta, jobs.progress, jobs.progress_note, jobs.worker_id, jobs.lease_expires_at,
    jobs.cancel_requested, jobs.result, jobs.error_code, jobs.error_message, jobs.dead_letter,
    CASE
        WHEN jobs.status <> 'queued' OR jobs.ready_at > :now THEN NULL
        WHEN EXISTS (
            SELECT 1 FROM holdfast_pauses AS pauses
            WHERE pauses.scope = 'queue' AND pauses.name = lanes.queue
        ) THEN 'queue'
        WHEN EXISTS (
            SELECT 1 FROM holdfast_pauses AS pauses
            WHERE pauses.scope = 'kind' AND pauses.name = lanes.kind
        ) THEN 'kind'
        WHEN EXISTS (
            SELECT 1 FROM holdfast_downstreams AS downstreams
            WHERE downstreams.name = lanes.downstream AND downstreams.held_until > :now
        ) THEN 'downstream'
    END AS held_by,
    CASE
        WHEN jobs.status = 'queued' AND jobs.token > 0 OR jobs.status = 'processing' AND jobs.token > 1
            THEN (
                SELECT json_array(events.error_code, events.error_message, events.attempt)
                FROM holdfast_events AS events
                WHERE events.job = jobs.seq AND events.token IS NOT NULL AND events.error_code IS NOT NULL
                ORDER BY events.token DESC
                LIMIT 1
            )
    END AS last_error,
    CASE
        WHEN jobs.status = 'failed' AND jobs.dedup_unfinished IS NULL THEN (
            SELECT 1 FROM holdfast_jobs AS twin
            WHERE twin.kind = jobs.kind
                AND twin.dedup_key = jobs.dedup_key
                AND twin.dedup_key IS NOT NULL
                AND twin.status <> 'failed'
                AND twin.status <> 'cancelled'
        )
    END AS has_twin

-- fragment: job_filter
(:statuses IS NULL OR jobs.status IN (SELECT value FROM json_each(:statuses)))
    AND (:kinds IS NULL OR jobs.kind IN (SELECT value FROM json_each(:kinds)))
    AND (:queue IS NULL OR lanes.queue = :queue)
    AND (:downstream IS NULL OR lanes.downstream = :downstream)
    AND (:owner IS NULL OR jobs.owner = :owner)
    AND (:id IS NULL OR jobs.id = :id)
    AND (:error_code IS NULL OR jobs.error_code = :error_code)
    AND (:error_text IS NULL OR instr(jobs.error_message, :error_text) > 0)
    AND (:error_group IS NULL OR jobs.error_group = :error_group)
    AND (:min_attempts IS NULL OR jobs.attempt_count >= :min_attempts)
    AND (:created_from IS NULL OR jobs.created_at >= :created_from)
    AND (:created_to IS NULL OR jobs.created_at < :created_to)
    AND (
        :text IS NULL
        OR instr(jobs.id, :text) > 0
        OR instr(jobs.kind, :text) > 0
        OR instr(jobs.owner, :text) > 0
        OR instr(jobs.error_message, :text) > 0
        OR instr(jobs.meta, :text) > 0
    )
    AND jobs.seq >= :floor

-- name: read_job
SELECT {{job_columns}}, (SELECT arguments FROM holdfast_job_arguments AS job_arguments WHERE job = jobs.seq)
FROM holdfast_jobs AS jobs
CROSS JOIN holdfast_lanes AS lanes ON lanes.id = jobs.lane
WHERE jobs.id = :id;

-- Six queries for the same list: the caller chooses the index that leaves the fewest rows.
-- name: read_jobs_of_id
SELECT {{job_columns}}
FROM holdfast_jobs AS jobs
CROSS JOIN holdfast_lanes AS lanes ON lanes.id = jobs.lane
WHERE jobs.id = :id AND jobs.seq < :before AND {{job_filter}}
LIMIT :limit;

-- name: read_jobs
SELECT {{job_columns}}
FROM holdfast_jobs AS jobs NOT INDEXED
CROSS JOIN holdfast_lanes AS lanes ON lanes.id = jobs.lane
WHERE jobs.seq < :before AND {{job_filter}}
ORDER BY jobs.seq DESC
LIMIT :limit;

-- name: read_jobs_of_owner
SELECT {{job_columns}}
FROM holdfast_jobs AS jobs INDEXED BY holdfast_jobs_owned
CROSS JOIN holdfast_lanes AS lanes ON lanes.id = jobs.lane
WHERE jobs.owner = :owner AND jobs.owner IS NOT NULL AND jobs.seq < :before AND {{job_filter}}
ORDER BY jobs.seq DESC
LIMIT :limit;

-- name: read_jobs_unfinished
SELECT {{job_columns}}
FROM holdfast_jobs AS jobs INDEXED BY holdfast_jobs_unfinished
CROSS JOIN holdfast_lanes AS lanes ON lanes.id = jobs.lane
WHERE jobs.finished_at IS NULL AND jobs.seq < :before AND {{job_filter}}
ORDER BY jobs.seq DESC
LIMIT :limit;

-- name: read_jobs_unsuccessful
SELECT {{job_columns}}
FROM holdfast_jobs AS jobs INDEXED BY holdfast_jobs_ended_badly
CROSS JOIN holdfast_lanes AS lanes ON lanes.id = jobs.lane
WHERE (jobs.status = 'failed' OR jobs.status = 'cancelled') AND jobs.seq < :before AND {{job_filter}}
ORDER BY jobs.seq DESC
LIMIT :limit;

-- name: read_jobs_of_kind
SELECT {{job_columns}}
FROM holdfast_jobs AS jobs INDEXED BY holdfast_jobs_of_kind
CROSS JOIN holdfast_lanes AS lanes ON lanes.id = jobs.lane
WHERE jobs.kind = :kinds ->> 0 AND jobs.seq < :before AND {{job_filter}}
ORDER BY jobs.seq DESC
LIMIT :limit;

-- The job at which a search of each of these lists stops: the one in place :window from :before on.
-- name: floor_read_jobs
SELECT seq, created_at FROM holdfast_jobs AS jobs
WHERE seq = (
    SELECT seq FROM holdfast_jobs AS jobs NOT INDEXED
    WHERE seq < :before
    ORDER BY seq DESC
    LIMIT 1 OFFSET :window - 1
);

-- name: floor_read_jobs_of_owner
SELECT seq, created_at FROM holdfast_jobs AS jobs
WHERE seq = (
    SELECT seq FROM holdfast_jobs AS jobs INDEXED BY holdfast_jobs_owned
    WHERE owner = :owner AND owner IS NOT NULL AND seq < :before
    ORDER BY seq DESC
    LIMIT 1 OFFSET :window - 1
);

-- name: floor_read_jobs_unfinished
SELECT seq, created_at FROM holdfast_jobs AS jobs
WHERE seq = (
    SELECT seq FROM holdfast_jobs AS jobs INDEXED BY holdfast_jobs_unfinished
    WHERE finished_at IS NULL AND seq < :before
    ORDER BY seq DESC
    LIMIT 1 OFFSET :window - 1
);

-- name: floor_read_jobs_unsuccessful
SELECT seq, created_at FROM holdfast_jobs AS jobs
WHERE seq = (
    SELECT seq FROM holdfast_jobs AS jobs INDEXED BY holdfast_jobs_ended_badly
    WHERE (status = 'failed' OR status = 'cancelled') AND seq < :before
    ORDER BY seq DESC
    LIMIT 1 OFFSET :window - 1
);

-- name: floor_read_jobs_of_kind
SELECT seq, created_at FROM holdfast_jobs AS jobs
WHERE seq = (
    SELECT seq FROM holdfast_jobs AS jobs INDEXED BY holdfast_jobs_of_kind
    WHERE kind = :kinds ->> 0 AND seq < :before
    ORDER BY seq DESC
    LIMIT 1 OFFSET :window - 1
);

-- name: read_dead_letters
SELECT {{job_columns}}
FROM holdfast_jobs AS jobs INDEXED BY holdfast_jobs_dead
CROSS JOIN holdfast_lanes AS lanes ON lanes.id = jobs.lane
WHERE jobs.dead_letter IS NOT NULL
    AND (jobs.finished_at, jobs.seq) < (:before_at, :before)
    AND (jobs.finished_at, jobs.seq) >= (:floor_at, :floor_seq)
    AND {{job_filter}}
ORDER BY jobs.finished_at DESC, jobs.seq DESC
LIMIT :limit;

-- The dead letter at which a search stops: the one in place :window from :before_at on.
-- name: floor_read_dead_letters
SELECT finished_at, seq FROM holdfast_jobs AS jobs INDEXED BY holdfast_jobs_dead
WHERE dead_letter IS NOT NULL AND (finished_at, seq) < (:before_at, :before)
ORDER BY finished_at DESC, seq DESC
LIMIT 1 OFFSET :window - 1;

-- name: read_dead_letters_of_group
SELECT {{job_columns}}
FROM holdfast_jobs AS jobs INDEXED BY holdfast_jobs_dead_groups
CROSS JOIN holdfast_lanes AS lanes ON lanes.id = jobs.lane
WHERE jobs.dead_letter IS NOT NULL
    AND jobs.kind = :kind
    AND jobs.error_code = :error_code
    AND jobs.error_group = :error_group
    AND (jobs.finished_at, jobs.seq) < (:before_at, :before)
    AND {{job_filter}}
ORDER BY jobs.finished_at DESC, jobs.seq DESC
LIMIT :limit;

-- name: read_dead_letter_groups
SELECT
    dead_letter_groups.kind, dead_letter_groups.code, dead_letter_groups.message,
    dead_letter_groups.count, jobs.finished_at, jobs.id, oldest.finished_at, oldest.id
FROM (
    SELECT * FROM holdfast_dead_letter_groups AS dead_letter_groups
    ORDER BY count DESC, kind, message
    LIMIT :limit
) AS dead_letter_groups
CROSS JOIN holdfast_jobs AS jobs ON jobs.seq = (
    SELECT seq FROM holdfast_jobs AS jobs
    WHERE kind = dead_letter_groups.kind
        AND error_code = dead_letter_groups.code
        AND error_group = dead_letter_groups.message
        AND dead_letter IS NOT NULL
    ORDER BY finished_at DESC
    LIMIT 1
)
CROSS JOIN holdfast_jobs AS oldest ON oldest.seq = (
    SELECT seq FROM holdfast_jobs AS jobs
    WHERE kind = dead_letter_groups.kind
        AND error_code = dead_letter_groups.code
        AND error_group = dead_letter_groups.message
        AND dead_letter IS NOT NULL
    ORDER BY finished_at
    LIMIT 1
)
ORDER BY dead_letter_groups.count DESC, dead_letter_groups.kind, dead_letter_groups.message;

-- name: read_events
SELECT
    events.sequence, jobs.id, jobs.kind, jobs.owner, events.name, events.at, events.attempt,
    events.duration, events.error_code, events.meta
FROM holdfast_jobs AS jobs
CROSS JOIN holdfast_events AS events ON events.job = jobs.seq
WHERE jobs.id = :id
ORDER BY events.sequence;

-- name: read_changes
SELECT
    events.sequence, jobs.id, jobs.kind, jobs.owner, events.name, events.at, events.attempt,
    events.duration, events.error_code, events.meta
FROM holdfast_events AS events
CROSS JOIN holdfast_jobs AS jobs ON jobs.seq = events.job
WHERE events.sequence > :sequence AND (:owner IS NULL OR jobs.owner = :owner)
ORDER BY events.sequence
LIMIT :limit;

-- name: read_last_sequence
SELECT coalesce(max(sequence), 0) FROM holdfast_events AS events;

-- name: read_attempts
SELECT
    events.attempt, events.token, events.worker_id, events.started_at, events.at,
    events.duration, events.outcome, events.error_code, events.error_message,
    events.retry_after, events.meta, events.traceback
FROM holdfast_jobs AS jobs
CROSS JOIN holdfast_events AS events ON events.job = jobs.seq AND events.token IS NOT NULL
WHERE jobs.id = :id
UNION ALL
SELECT
    attempt_count, token, worker_id, last_attempt_at, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL
FROM holdfast_jobs AS jobs
WHERE id = :id AND status = 'processing'
ORDER BY 2;

-- name: read_late_results
SELECT late_results.token, late_results.received_at, late_results.result
FROM holdfast_jobs AS jobs
CROSS JOIN holdfast_late_results AS late_results ON late_results.job = jobs.seq
WHERE jobs.id = :id
ORDER BY late_results.token;

-- name: read_lanes
SELECT
    queue, nullif(downstream, ''), kind, uploaded, scheduled, ready, processing, complete,
    failed, cancelled
FROM holdfast_lanes AS lanes
ORDER BY queue, downstream, kind;

-- name: read_outcomes
SELECT kind, status, attempts, count FROM holdfast_outcome_counts AS outcome_counts ORDER BY kind, status, attempts;

-- name: read_totals
SELECT name, count FROM holdfast_totals AS totals;

-- name: read_dead_count
SELECT coalesce(sum(count), 0) FROM holdfast_dead_letter_groups AS dead_letter_groups;

-- The oldest job of each priority in a lane: one index step per priority.
-- name: read_oldest_ready
WITH RECURSIVE heads (queue, lane, seq) AS (
    SELECT
        queue, id,
        (
            SELECT seq FROM holdfast_jobs AS jobs
            WHERE lane = lanes.id AND ready = 1
            ORDER BY priority DESC, coalesce(owner, ''), ready_at
            LIMIT 1
        )
    FROM holdfast_lanes AS lanes
    WHERE ready > 0
    UNION ALL
    SELECT
        heads.queue, heads.lane,
        coalesce((
            SELECT seq FROM holdfast_jobs AS jobs
            WHERE lane = heads.lane
                AND ready = 1
                AND priority = head.priority
                AND coalesce(owner, '') > coalesce(head.owner, '')
            ORDER BY coalesce(owner, ''), ready_at
            LIMIT 1
        ), (
            SELECT seq FROM holdfast_jobs AS jobs
            WHERE lane = heads.lane AND ready = 1 AND priority < head.priority
            ORDER BY priority DESC, coalesce(owner, ''), ready_at
            LIMIT 1
        ))
    FROM heads
    CROSS JOIN holdfast_jobs AS head ON head.seq = heads.seq
)
SELECT heads.queue, lanes.downstream, min(jobs.ready_at)
FROM heads
CROSS JOIN holdfast_jobs AS jobs ON jobs.seq = heads.seq
CROSS JOIN holdfast_lanes AS lanes ON lanes.id = heads.lane
GROUP BY heads.queue, lanes.downstream;

-- name: read_schema_version
SELECT max(version) FROM holdfast_migrations;
