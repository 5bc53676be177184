-- Every change of status except the two most common ones: a claim (holdfast.take) and a completion
-- (holdfast.complete).

-- Whether jobs of `p_kind` become dead letters where the store itself ends them: at deadlines, where their workers
-- died, and where no attempt is left. What a worker reports holds as it is. With the rights of its owner, so that
-- workers go on between a migration that adds the table and the GRANTs that follow it.
CREATE OR REPLACE FUNCTION holdfast.has_dead_letters(p_kind text) RETURNS boolean
LANGUAGE sql STABLE
SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT NOT EXISTS (SELECT FROM holdfast.kinds_without_dead_letters WHERE kind = p_kind)
$$;

-- Move jobs that the caller has locked: the jobs, their history and the counters. `p_tracebacks` are those
-- of the attempts that end, in the order of `p_moves`; NULL where there are none.
CREATE OR REPLACE FUNCTION holdfast.move(
    p_moves holdfast.move[], p_tracebacks text[], t double precision
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH leaving AS MATERIALIZED (
        SELECT
            given.*, jobs.lane, jobs.kind, jobs.status AS origin, jobs.ready AS was_ready,
            jobs.token, jobs.worker_id, jobs.attempt_count, jobs.last_attempt_at
        FROM unnest(p_moves, p_tracebacks) AS given (
            job, target, name, outcome, code, message, error_group, dead_letter, ready_at,
            retry_after, uncounted, duration, meta, traceback
        )
        JOIN holdfast.jobs ON jobs.seq = given.job
    ), moved AS (
        UPDATE holdfast.jobs SET
            status = target,
            ready = target = 'queued' AND coalesce(leaving.ready_at, jobs.ready_at) <= t,
            ready_at = coalesce(leaving.ready_at, jobs.ready_at),
            queued_at = CASE WHEN target = 'queued' THEN t ELSE queued_at END,
            finished_at = CASE WHEN target <> 'queued' THEN t END,
            attempt_count = jobs.attempt_count - CASE WHEN uncounted THEN 1 ELSE 0 END,
            progress = CASE WHEN target <> 'queued' THEN progress END,
            progress_note = CASE WHEN target <> 'queued' THEN progress_note END,
            error_code = CASE WHEN target = 'failed' THEN code END,
            error_message = CASE WHEN target = 'failed' THEN message END,
            error_group = CASE WHEN target = 'failed' THEN leaving.error_group END,
            dead_letter = CASE WHEN target = 'failed' THEN leaving.dead_letter END,
            worker_id = NULL, lease_expires_at = NULL, permit_generation = NULL,
            permit_trial = NULL, cancel_requested = false,
            lost_worker = lost_worker OR outcome IS NOT DISTINCT FROM 'lease_lost',
            previous_event = last_event, last_event = nextval('holdfast.event_sequence')
        FROM leaving
        WHERE jobs.seq = leaving.job
        RETURNING leaving.*, jobs.ready, jobs.last_event, jobs.previous_event
    ), recorded AS (
        INSERT INTO holdfast.history (
            sequence, at, name, outcome, error_code, error_message, retry_after, metas, jobs,
            previous, attempts, traceback, workers, tokens, started_ats, durations
        )
        SELECT
            last_event, t, name, outcome, code, message, retry_after, ARRAY[meta], ARRAY[job],
            ARRAY[previous_event], ARRAY[attempt_count], traceback,
            CASE WHEN outcome IS NOT NULL THEN ARRAY[worker_id] END,
            CASE WHEN outcome IS NOT NULL THEN ARRAY[token] END,
            CASE WHEN outcome IS NOT NULL THEN ARRAY[last_attempt_at] END,
            CASE WHEN outcome IS NOT NULL THEN
                ARRAY[coalesce(duration, greatest(0, t - last_attempt_at))]
            END
        FROM moved
    )
    INSERT INTO holdfast.counter_deltas (delta, family, a, b, c)
    SELECT sum(sign), family, a, b, c
    FROM moved
    CROSS JOIN LATERAL (
        VALUES
            (-1, 'lane', lane::text, holdfast.lane_counter(origin, was_ready), ''),
            (1, 'lane', lane::text, holdfast.lane_counter(target, moved.ready), ''),
            (CASE WHEN target <> 'queued' THEN 1 ELSE 0 END,
                'outcome', kind, target::text, attempt_count::text),
            (CASE WHEN target = 'failed' AND moved.dead_letter IS NOT NULL THEN 1 ELSE 0 END,
                'dead', kind, coalesce(code, ''), coalesce(moved.error_group, ''))
    ) AS counted (sign, family, a, b, c)
    WHERE sign <> 0
    GROUP BY family, a, b, c;
END
$$;

-- The same without tracebacks.
CREATE OR REPLACE FUNCTION holdfast.move(p_moves holdfast.move[], t double precision) RETURNS void
LANGUAGE sql VOLATILE AS $$
    SELECT holdfast.move(p_moves, NULL, t)
$$;
