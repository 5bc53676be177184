-- Jobs past their deadline fail with TIMEOUT; a result that comes later is stored as late.

-- Fail unfinished jobs, locked by the caller, with TIMEOUT, and return their ids. `p_timeout` is its
-- message and group.
CREATE OR REPLACE FUNCTION holdfast.time_out(p_seqs bigint[], p_timeout text[], t double precision)
RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    moves holdfast.move[];
    late_ids text[];
BEGIN
    SELECT array_agg(jobs.id), array_agg(ROW(
        jobs.seq, 'failed', 'failed', CASE jobs.status WHEN 'processing' THEN 'timeout' END,
        'TIMEOUT', p_timeout[1], p_timeout[2], CASE WHEN holdfast.has_dead_letters(jobs.kind) THEN 'deadline' END,
        NULL, NULL, false, NULL, NULL
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

-- Store a result that came after TIMEOUT, once per token; false where it is not late or not new.
CREATE OR REPLACE FUNCTION holdfast.keep_late_result(
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
    PERFORM holdfast.add_event(p_seq, 'late_result', NULL, t);
    PERFORM holdfast.count_total('late_results', 1);
    RETURN true;
END
$$;

-- Fail ready jobs of some lanes that are past their deadline, so that no claim takes them. In a line, `number` is 1
-- where the job is a dead letter, and 0 where its kind has none.
CREATE OR REPLACE FUNCTION holdfast.time_out_ready(
    p_lanes integer[], p_timeout text[], t double precision
) RETURNS SETOF holdfast.tick_line
LANGUAGE plpgsql AS $$
DECLARE
    line holdfast.tick_line;
    late bigint[];
BEGIN
    PERFORM FROM holdfast.jobs WHERE deadline_at < t AND finished_at IS NULL LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    late := ARRAY(
        SELECT seq
        FROM holdfast.jobs
        WHERE deadline_at < t AND finished_at IS NULL AND ready AND lane = ANY (p_lanes)
        ORDER BY deadline_at
        LIMIT 500
        FOR UPDATE SKIP LOCKED
    );
    line.what := 'timed_out';
    FOR line.id, line.number IN
        SELECT failed.id, CASE WHEN holdfast.has_dead_letters(jobs.kind) THEN 1 ELSE 0 END
        FROM holdfast.time_out(late, p_timeout, t) AS failed (id)
        JOIN holdfast.jobs ON jobs.seq = holdfast.job_of(failed.id)
    LOOP
        RETURN NEXT line;
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION holdfast.expire_deadlines(
    p_limit integer, p_timeout text[], p_now double precision
) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    t double precision := holdfast.time_of(p_now);
BEGIN
    RETURN QUERY
    SELECT holdfast.time_out(array_agg(late.seq), p_timeout, t)
    FROM (
        SELECT seq
        FROM holdfast.jobs
        WHERE deadline_at < t AND finished_at IS NULL
        ORDER BY deadline_at
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ) AS late;
END
$$;
