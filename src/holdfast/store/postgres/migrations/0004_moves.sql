-- How jobs leave the place where they stand, but for the two moves that nearly all of them make: a
-- claim (holdfast.take) and a completion (holdfast.complete).

-- One job's move. `outcome` is how its attempt ended, NULL where nobody runs it. `ready_at` is of
-- those that go back to the queue, NULL where they keep their place; `gives_back` says that the
-- attempt is not to be counted. `duration` is NULL where it is to be measured.
CREATE TYPE holdfast.move AS (
    job         bigint,
    target      holdfast.status,
    name        text,
    outcome     holdfast.outcome,
    code        text,
    message     text,
    error_group text,
    dead_letter text,
    ready_at    double precision,
    retry_after double precision,
    gives_back  boolean,
    duration    double precision,
    meta        text
);

-- Note that jobs run no longer: a column of the claims that they were in, and one of their lanes.
-- Called once in a transaction, and after that it waits for no job: so nobody waits in a ring.
CREATE FUNCTION holdfast.leave_leases(p_pages bigint[], p_lanes integer[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE holdfast.leases SET running = running - ended.n
    FROM (
        SELECT page, lane, count(*) AS n
        FROM unnest(p_pages, p_lanes) AS given (page, lane)
        GROUP BY page, lane
        ORDER BY page, lane
    ) AS ended
    WHERE leases.page = ended.page AND leases.lane = ended.lane;
    DELETE FROM holdfast.leases WHERE page = ANY (p_pages) AND running = 0;
END
$$;

-- Move jobs that the caller has locked: the jobs, their history, their leases and what is counted.
-- `p_pages` and `p_lanes` are of others that have just ended, see holdfast.leave_leases.
CREATE FUNCTION holdfast.move(
    p_moves holdfast.move[],
    t double precision,
    p_pages bigint[] DEFAULT '{}',
    p_lanes integer[] DEFAULT '{}'
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH leaving AS MATERIALIZED (
        SELECT
            given.*, jobs.lane, jobs.kind, jobs.status AS origin, jobs.ready AS was_ready,
            jobs.token, jobs.worker_id, jobs.attempt_count, jobs.last_attempt_at
        FROM unnest(p_moves) AS given
        JOIN holdfast.jobs ON jobs.seq = given.job
    ), moved AS (
        UPDATE holdfast.jobs SET
            status = target,
            waits = CASE WHEN target = 'queued' THEN true END,
            ready = target = 'queued' AND coalesce(leaving.ready_at, jobs.ready_at) <= t,
            ready_at = coalesce(leaving.ready_at, jobs.ready_at),
            queued_at = CASE WHEN target = 'queued' THEN t ELSE queued_at END,
            finished_at = CASE WHEN target <> 'queued' THEN t END,
            ended_badly_at = CASE WHEN target <> 'queued' THEN t END,
            expires_at = CASE WHEN target = 'queued' THEN deadline_at END,
            attempt_count = jobs.attempt_count - CASE WHEN gives_back THEN 1 ELSE 0 END,
            progress = CASE WHEN target <> 'queued' THEN progress END,
            progress_note = CASE WHEN target <> 'queued' THEN progress_note END,
            error_code = CASE WHEN target = 'failed' THEN code END,
            error_message = CASE WHEN target = 'failed' THEN message END,
            error_group = CASE WHEN target = 'failed' THEN leaving.error_group END,
            dead_letter = CASE WHEN target = 'failed' THEN leaving.dead_letter END,
            worker_id = NULL, lease_expires_at = NULL, permit_generation = NULL,
            permit_trial = NULL, cancel_requested = false,
            previous_event = last_event, last_event = nextval('holdfast.event_sequence')
        FROM leaving
        WHERE jobs.seq = leaving.job
        RETURNING leaving.*, jobs.ready, jobs.last_event, jobs.previous_event
    ), told AS (
        INSERT INTO holdfast.history (
            sequence, at, name, outcome, error_code, error_message, retry_after, metas, jobs,
            previous, attempts, workers, tokens, started_ats, durations
        )
        SELECT
            last_event, t, name, outcome, code, message, retry_after, ARRAY[meta], ARRAY[job],
            ARRAY[previous_event], ARRAY[attempt_count],
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
            (-1, 'lane', lane::text, holdfast.place_of(origin, was_ready), ''),
            (1, 'lane', lane::text, holdfast.place_of(target, moved.ready), ''),
            (CASE WHEN target <> 'queued' THEN 1 ELSE 0 END,
                'outcome', kind, target::text, attempt_count::text),
            (CASE WHEN target = 'failed' AND moved.dead_letter IS NOT NULL THEN 1 ELSE 0 END,
                'dead', kind, coalesce(code, ''), coalesce(moved.error_group, ''))
    ) AS counted (sign, family, a, b, c)
    WHERE sign <> 0
    GROUP BY family, a, b, c;
    SELECT p_pages || array_agg(jobs.claimed_in), p_lanes || array_agg(jobs.lane)
    INTO p_pages, p_lanes
    FROM unnest(p_moves) AS given
    JOIN holdfast.jobs ON jobs.seq = given.job
    WHERE given.outcome IS NOT NULL;
    IF p_pages <> '{}' THEN
        PERFORM holdfast.leave_leases(p_pages, p_lanes);
    END IF;
END
$$;

-- Write one line of history about a job that stays where it is; the caller has locked it.
CREATE FUNCTION holdfast.tell(p_seq bigint, p_name text, p_meta text, t double precision)
RETURNS void
LANGUAGE sql VOLATILE AS $$
    WITH moved AS (
        UPDATE holdfast.jobs SET
            previous_event = last_event, last_event = nextval('holdfast.event_sequence')
        WHERE seq = p_seq
        RETURNING last_event, previous_event, attempt_count
    )
    INSERT INTO holdfast.history (sequence, at, name, metas, jobs, previous, attempts)
    SELECT
        last_event, t, p_name, ARRAY[p_meta], ARRAY[p_seq], ARRAY[previous_event],
        ARRAY[attempt_count]
    FROM moved
$$;

CREATE FUNCTION holdfast.count_total(p_name text, p_delta bigint) RETURNS void
LANGUAGE sql VOLATILE AS $$
    INSERT INTO holdfast.counter_deltas (delta, family, a) VALUES (p_delta, 'total', p_name)
$$;

-- Fail unfinished jobs, locked by the caller, with TIMEOUT, and return their ids. `p_timeout` is its
-- message and group.
CREATE FUNCTION holdfast.time_out(p_seqs bigint[], p_timeout text[], t double precision)
RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    moves holdfast.move[];
    late_ids text[];
BEGIN
    SELECT array_agg(jobs.id), array_agg(ROW(
        jobs.seq, 'failed', 'failed', CASE jobs.status WHEN 'processing' THEN 'timeout' END,
        'TIMEOUT', p_timeout[1], p_timeout[2], 'deadline', NULL, NULL, false, NULL, NULL
    )::holdfast.move)
    INTO late_ids, moves
    FROM unnest(p_seqs) AS given (job)
    JOIN holdfast.jobs ON jobs.seq = given.job
    WHERE jobs.finished_at IS NULL;
    IF moves IS NOT NULL THEN
        PERFORM holdfast.move(moves, t);
        PERFORM holdfast.count_total('timed_out', cardinality(moves));
        RETURN QUERY SELECT * FROM unnest(late_ids);
    END IF;
END
$$;

-- Keep a result that came after TIMEOUT, once a token; false where it is not late or was there.
CREATE FUNCTION holdfast.keep_late_result(
    p_seq bigint, p_token bigint, p_result text, t double precision
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM holdfast.jobs
    WHERE seq = p_seq AND token = p_token AND error_code = 'TIMEOUT'
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO holdfast.late_results (job, token, received_at, result)
    VALUES (p_seq, p_token, t, p_result)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM holdfast.tell(p_seq, 'late_result', NULL, t);
    PERFORM holdfast.count_total('late_results', 1);
    RETURN true;
END
$$;
