-- Taking jobs in, in one round trip. Each statement of a function sees what was committed before
-- that statement began (READ COMMITTED).

CREATE FUNCTION holdfast.time_of(p_now double precision) RETURNS double precision
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(p_now, extract(epoch FROM clock_timestamp())::double precision)
$$;

-- Where its lane counts a job.
CREATE FUNCTION holdfast.place_of(p_status holdfast.status, p_ready boolean) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN p_ready THEN 'ready' WHEN p_status = 'queued' THEN 'scheduled' ELSE p_status::text
    END
$$;

-- Jobs to be created, a column an array. One of what no job can miss may hold one value for all of
-- them, but for the ids; one of what a job can miss may be NULL.
CREATE TYPE holdfast.new_jobs AS (
    ids          text[],
    lanes        integer[],
    kinds        text[],
    statuses     text[],
    arguments    text[],
    priorities   smallint[],
    max_attempts integer[],
    run_ats      double precision[],
    deadlines    double precision[],
    dedup_keys   text[],
    owners       text[],
    metas        text[]
);

-- Create the jobs whose positions in the arrays, from 1, are `wanted`; NULL means all. Fails where
-- an id is taken or a twin exists.
CREATE FUNCTION holdfast.create_jobs(
    p_jobs holdfast.new_jobs, wanted bigint[], t double precision
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    -- In the order of dedup keys: two calls that share some never wait for each other in a ring.
    WITH created AS (
        INSERT INTO holdfast.jobs (
            seq, last_event, id, lane, kind, status, waits, ready, priority, ready_at,
            max_attempts, created_at, queued_at, deadline_at, expires_at, dedup_key, owner, meta,
            arguments
        )
        SELECT
            seq,
            -- One page for all of a status: a subquery without a row of its own runs once.
            CASE status
                WHEN 'queued' THEN (SELECT nextval('holdfast.event_sequence'))
                ELSE (SELECT nextval('holdfast.event_sequence'))
            END,
            id, lane, kind, status, status = 'queued',
            status = 'queued' AND coalesce(run_at, 0) <= t, priority, greatest(run_at, t),
            max_attempts, t, CASE WHEN status = 'queued' THEN t END, deadline_at, deadline_at,
            dedup_key, owner, meta, arguments
        FROM (
            SELECT
                nextval('holdfast.job_sequence') AS seq, id,
                coalesce(given.arguments, p_jobs.arguments[1]) AS arguments,
                coalesce(lane, p_jobs.lanes[1]) AS lane,
                coalesce(kind, p_jobs.kinds[1]) AS kind,
                coalesce(given.status, p_jobs.statuses[1])::holdfast.status AS status,
                coalesce(priority, p_jobs.priorities[1]) AS priority,
                coalesce(given.max_attempts, p_jobs.max_attempts[1]) AS max_attempts,
                run_at, deadline_at, dedup_key, owner, meta
            FROM unnest(
                p_jobs.ids, p_jobs.lanes, p_jobs.kinds, p_jobs.statuses, p_jobs.arguments,
                p_jobs.priorities, p_jobs.max_attempts, p_jobs.run_ats, p_jobs.deadlines,
                p_jobs.dedup_keys, p_jobs.owners, p_jobs.metas
            ) WITH ORDINALITY AS given (
                id, lane, kind, status, arguments, priority, max_attempts, run_at, deadline_at,
                dedup_key, owner, meta, number
            )
            WHERE wanted IS NULL OR given.number = ANY (wanted)
        ) AS fresh
        ORDER BY dedup_key COLLATE "C", seq
        RETURNING seq, last_event, id, owner, lane, status, ready
    ), told AS (
        INSERT INTO holdfast.history (sequence, at, name, jobs)
        SELECT last_event, t, status, array_agg(seq) FROM created GROUP BY last_event, status
    ), named AS (
        INSERT INTO holdfast.ids (id, job, owner)
        SELECT id, seq, owner FROM created
    )
    INSERT INTO holdfast.counter_deltas (delta, family, a, b)
    SELECT count(*), 'lane', lane, holdfast.place_of(status, ready)
    FROM created
    GROUP BY lane, status, ready;
END
$$;

-- Create those jobs whose id is free and that have no twin, all or none. Returns a row for each
-- that was not created: its position, and the id of the job that stands in its place.
CREATE FUNCTION holdfast.create_missing_jobs(p_jobs holdfast.new_jobs, t double precision)
RETURNS TABLE (number bigint, twin text)
LANGUAGE plpgsql AS $$
DECLARE
    wanted bigint[];
    made bigint[] := '{}';
    refused integer := 0;
    numbers bigint[];
    twins text[];
BEGIN
    LOOP
        -- First of its id, then first of its key among those whose id is free, and nothing stored
        -- stands in its place.
        SELECT array_agg(named.number) INTO wanted
        FROM (
            SELECT
                given.kind, given.dedup_key, given.number,
                row_number() OVER (
                    PARTITION BY given.kind, given.dedup_key ORDER BY given.number
                ) AS of_key
            FROM (
                SELECT
                    given.id, coalesce(given.kind, p_jobs.kinds[1]) AS kind, given.dedup_key,
                    given.number,
                    row_number() OVER (PARTITION BY given.id ORDER BY given.number) AS of_id
                FROM unnest(p_jobs.ids, p_jobs.kinds, p_jobs.dedup_keys)
                    WITH ORDINALITY AS given (id, kind, dedup_key, number)
            ) AS given
            WHERE of_id = 1 AND NOT EXISTS (SELECT FROM holdfast.ids WHERE ids.id = given.id)
        ) AS named
        WHERE (of_key = 1 OR dedup_key IS NULL)
            AND NOT EXISTS (
                SELECT FROM holdfast.jobs
                WHERE jobs.kind = named.kind
                    AND jobs.dedup_key = named.dedup_key
                    AND jobs.dedup_key IS NOT NULL
                    AND jobs.ended_badly_at IS NULL
            );
        IF wanted IS NOT NULL THEN
            BEGIN
                PERFORM holdfast.create_jobs(p_jobs, wanted, t);
                made := made || wanted;
            EXCEPTION WHEN unique_violation THEN
                -- Another caller was first; it has committed by now, so look again. A transaction
                -- that cannot see what others commit would look in vain.
                refused := refused + 1;
                IF refused = 5 THEN
                    RAISE;
                END IF;
                CONTINUE;
            END;
        END IF;
        SELECT array_agg(given.number), array_agg(coalesce(own.id, others.id))
        INTO numbers, twins
        FROM unnest(p_jobs.ids, p_jobs.kinds, p_jobs.dedup_keys)
            WITH ORDINALITY AS given (id, kind, dedup_key, number)
        LEFT JOIN holdfast.ids AS own ON own.id = given.id
        LEFT JOIN holdfast.jobs AS others
            ON others.kind = coalesce(given.kind, p_jobs.kinds[1])
            AND others.dedup_key = given.dedup_key
            AND others.dedup_key IS NOT NULL
            AND others.ended_badly_at IS NULL
        WHERE given.number <> ALL (made);
        -- A twin may have failed between the two looks; then its place is free.
        EXIT WHEN array_position(twins, NULL) IS NULL;
    END LOOP;
    RETURN QUERY SELECT * FROM unnest(numbers, twins);
END
$$;

-- Create jobs, all or none, at most as many as a page of history has lines. `p_notify` wakes workers
-- with the commit; `p_all_new` says that nothing is likely to stand in the way, and fails where
-- something does.
CREATE FUNCTION holdfast.enqueue(
    p_jobs holdfast.new_jobs, p_all_new boolean, p_notify boolean, p_now double precision
) RETURNS TABLE (number bigint, twin text)
LANGUAGE plpgsql AS $$
DECLARE
    t double precision := holdfast.time_of(p_now);
BEGIN
    IF p_all_new THEN
        PERFORM holdfast.create_jobs(p_jobs, NULL, t);
    ELSE
        RETURN QUERY SELECT * FROM holdfast.create_missing_jobs(p_jobs, t);
    END IF;
    IF p_notify THEN
        PERFORM pg_notify('holdfast', 'work');
    END IF;
END
$$;
