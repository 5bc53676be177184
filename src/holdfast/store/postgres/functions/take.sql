-- Starting attempts of ready jobs.

-- Claim jobs of some sub-queues, each with a permit of the generation that its lane has in
-- `p_generations`. At most 10000 in all, for they share a page of history. Jobs are locked as they are
-- found, in the order of each sub-queue; those that another transaction has locked are skipped, so
-- two claims never wait for each other.
CREATE OR REPLACE FUNCTION holdfast.take_jobs(
    p_worker text,
    p_subqueues holdfast.subqueue[],
    p_lanes integer[],
    p_generations bigint[],
    p_lease double precision,
    t double precision
) RETURNS holdfast.tick_answer
LANGUAGE plpgsql AS $$
DECLARE
    line holdfast.tick_answer;
    page_number bigint := holdfast.next_page();
BEGIN
    WITH started AS (
        UPDATE holdfast.jobs SET
            status = 'processing', ready = false, attempt_count = attempt_count + 1,
            token = token + 1, worker_id = p_worker, lease_expires_at = t + p_lease,
            started_at = coalesce(started_at, t), last_attempt_at = t,
            permit_generation = p_generations[array_position(p_lanes, lane)],
            previous_event = last_event, last_event = page_number
        WHERE ctid = ANY (ARRAY(
            SELECT job.location
            FROM unnest(p_subqueues) AS wanted
            CROSS JOIN LATERAL (
                SELECT jobs.ctid AS location
                FROM holdfast.jobs
                WHERE jobs.ready
                    AND jobs.lane = wanted.lane
                    AND jobs.priority = wanted.priority
                    AND coalesce(jobs.owner, '') COLLATE "C" = wanted.owner
                    AND (jobs.ready_at, jobs.seq)
                        > (coalesce(wanted.ready_at, '-infinity'), coalesce(wanted.seq, 0))
                    AND (t > jobs.deadline_at) IS NOT TRUE
                ORDER BY jobs.ready_at, jobs.seq
                LIMIT wanted.quota
                FOR UPDATE SKIP LOCKED
            ) AS job
            UNION ALL
            SELECT job.location
            FROM unnest(p_subqueues) AS wanted
            CROSS JOIN LATERAL (
                SELECT jobs.ctid AS location
                FROM holdfast.jobs
                WHERE wanted.priority IS NULL
                    AND jobs.ready
                    AND jobs.lane = wanted.lane
                    AND (t > jobs.deadline_at) IS NOT TRUE
                ORDER BY
                    jobs.priority DESC, coalesce(jobs.owner, '') COLLATE "C", jobs.ready_at,
                    jobs.seq
                LIMIT wanted.quota
                FOR UPDATE SKIP LOCKED
            ) AS job
        ))
        RETURNING
            seq, token, lane, attempt_count, max_attempts, created_at, deadline_at,
            permit_generation, priority, ready_at, last_event, previous_event, id, owner, meta,
            arguments
    ), page AS (
        SELECT
            min(last_event) AS sequence, array_agg(seq) AS jobs,
            array_agg(previous_event) AS previous, array_agg(attempt_count) AS attempts,
            array_agg(id) AS ids, array_agg(token) AS tokens, array_agg(lane) AS lanes,
            array_agg(max_attempts) AS max_attempts, array_agg(created_at) AS created_ats,
            CASE WHEN count(deadline_at) > 0 THEN array_agg(deadline_at) END AS deadlines,
            CASE WHEN count(permit_generation) > 0
                THEN array_agg(permit_generation)
            END AS generations,
            CASE WHEN count(owner) > 0 THEN array_agg(owner) END AS owners,
            CASE WHEN count(meta) > 0 THEN array_agg(meta) END AS metas,
            array_agg(arguments) AS arguments, array_agg(priority) AS priorities,
            array_agg(ready_at) AS ready_ats
        FROM (SELECT * FROM started ORDER BY priority DESC, ready_at, seq) AS started
    ), recorded AS (
        INSERT INTO holdfast.history (sequence, at, name, jobs, previous, attempts)
        SELECT sequence, t, 'processing', jobs, previous, attempts
        FROM page
        WHERE sequence IS NOT NULL
    ), by_lane AS (
        SELECT lane, count(*) AS n FROM started GROUP BY lane
    ), counted AS (
        INSERT INTO holdfast.counter_deltas (delta, family, a, b)
        SELECT sign * n, 'lane', lane, counter
        FROM by_lane
        CROSS JOIN (VALUES (-1, 'ready'), (1, 'processing')) AS changes (sign, counter)
    )
    SELECT
        'claims', NULL, t, NULL, jobs, ids, tokens, lanes, attempts, max_attempts, created_ats,
        deadlines, generations, owners, metas, arguments, priorities, ready_ats
    INTO line
    FROM page;
    RETURN line;
END
$$;

-- For workers of the release before: up to `quota` jobs of each lane.
CREATE OR REPLACE FUNCTION holdfast.take(
    p_worker text,
    p_lanes integer[],
    p_quotas integer[],
    p_generations bigint[],
    p_lease double precision,
    t double precision
) RETURNS holdfast.tick_line
LANGUAGE sql AS $$
    SELECT
        what, number, at, id, seqs, ids, tokens, lanes, attempts, max_attempts, created_ats,
        deadlines, generations, owners, metas, arguments
    FROM holdfast.take_jobs(
        p_worker,
        ARRAY(
            SELECT ROW(given.lane, NULL, NULL, given.quota, NULL, NULL)::holdfast.subqueue
            FROM unnest(p_lanes, p_quotas) AS given (lane, quota)
        ),
        p_lanes, p_generations, p_lease, t
    )
$$;
