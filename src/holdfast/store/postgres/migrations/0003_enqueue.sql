-- Taking jobs in, in one round trip. Each statement of a function sees what was committed before
-- that statement began (READ COMMITTED).

CREATE FUNCTION holdfast.time_of(p_now double precision) RETURNS double precision
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(p_now, extract(epoch FROM clock_timestamp())::double precision)
$$;

-- Create the jobs whose positions in the arrays, from 1, are `wanted`; NULL means all. Fails where
-- an id is taken or a twin exists. An array of lanes, kinds, statuses, priorities or max_attempts
-- may hold one value for all jobs, and one of what may be missing may be NULL.
CREATE FUNCTION holdfast.create_jobs(
    p_ids text[],
    p_lanes integer[],
    p_kinds text[],
    p_statuses text[],
    p_arguments text[],
    p_priorities smallint[],
    p_max_attempts integer[],
    p_run_ats double precision[],
    p_deadlines double precision[],
    p_dedup_keys text[],
    p_owners text[],
    p_metas text[],
    wanted bigint[],
    t double precision
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    -- In the order of dedup keys: two calls that share some never wait for each other in a ring.
    WITH created AS (
        INSERT INTO holdfast.jobs (
            seq, last_event, id, lane, kind, status, ready, priority, ready_at, max_attempts,
            created_at, queued_at, deadline_at, dedup_key, owner, meta, arguments
        )
        SELECT
            seq, nextval('holdfast.event_sequence'), id, coalesce(lane, p_lanes[1]),
            coalesce(kind, p_kinds[1]), status,
            status = 'queued' AND coalesce(run_at, 0) <= t,
            coalesce(priority, p_priorities[1]), greatest(run_at, t),
            coalesce(max_attempts, p_max_attempts[1]), t,
            CASE WHEN status = 'queued' THEN t END,
            deadline_at, dedup_key, owner, meta, arguments
        FROM (
            SELECT
                nextval('holdfast.job_sequence') AS seq,
                coalesce(given.status, p_statuses[1]) AS status,
                id, lane, kind, arguments, priority, max_attempts, run_at, deadline_at,
                dedup_key, owner, meta
            FROM unnest(
                p_ids, p_lanes, p_kinds, p_statuses, p_arguments, p_priorities, p_max_attempts,
                p_run_ats, p_deadlines, p_dedup_keys, p_owners, p_metas
            ) WITH ORDINALITY AS given (
                id, lane, kind, status, arguments, priority, max_attempts,
                run_at, deadline_at, dedup_key, owner, meta, number
            )
            WHERE wanted IS NULL OR given.number = ANY (wanted)
        ) AS fresh
        ORDER BY dedup_key COLLATE "C", seq
        RETURNING seq, last_event, id, owner, lane, status, ready
    ), told AS (
        INSERT INTO holdfast.events (sequence, job, at, attempt, name)
        SELECT last_event, seq, t, 0, status FROM created
    ), named AS (
        INSERT INTO holdfast.ids (id, job, owner)
        SELECT id, seq, owner FROM created
    )
    INSERT INTO holdfast.counter_deltas (delta, family, a, b)
    SELECT count(*), 'lane', lane, place
    FROM (
        SELECT lane, CASE
            WHEN ready THEN 'ready' WHEN status = 'queued' THEN 'scheduled' ELSE status
        END AS place
        FROM created
    ) AS placed
    GROUP BY lane, place;
END
$$;

-- For each job whose position is not in `made`: its position, and the id of the job that stands in
-- its place, NULL where there is none.
CREATE FUNCTION holdfast.twins_of(
    p_ids text[], p_kinds text[], p_dedup_keys text[], made bigint[]
) RETURNS TABLE (number bigint, twin text)
LANGUAGE sql VOLATILE AS $$
    SELECT given.number, coalesce(own.id, twins.id)
    FROM unnest(p_ids, p_kinds, p_dedup_keys)
        WITH ORDINALITY AS given (id, kind, dedup_key, number)
    LEFT JOIN holdfast.ids AS own ON own.id = given.id
    LEFT JOIN holdfast.jobs AS twins
        ON twins.kind = coalesce(given.kind, p_kinds[1])
        AND twins.dedup_key = given.dedup_key
        AND twins.dedup_key IS NOT NULL
        AND twins.status NOT IN ('failed', 'cancelled')
    WHERE given.number <> ALL (made)
$$;

-- Create those jobs whose id is free and that have no twin, all or none. Returns a row for each
-- that was not created: its position, and the id of the job that stands in its place.
CREATE FUNCTION holdfast.create_missing_jobs(
    p_ids text[],
    p_lanes integer[],
    p_kinds text[],
    p_statuses text[],
    p_arguments text[],
    p_priorities smallint[],
    p_max_attempts integer[],
    p_run_ats double precision[],
    p_deadlines double precision[],
    p_dedup_keys text[],
    p_owners text[],
    p_metas text[],
    t double precision
) RETURNS TABLE (number bigint, twin text)
LANGUAGE plpgsql AS $$
DECLARE
    wanted bigint[];
    made bigint[] := '{}';
    refused integer := 0;
    numbers bigint[];
    twins text[];
BEGIN
    LOOP
        -- First of its id, first of its key, and nothing stored stands in its place.
        SELECT array_agg(given.number) INTO wanted
        FROM (
            SELECT
                given.id, coalesce(given.kind, p_kinds[1]) AS kind, given.dedup_key, given.number,
                row_number() OVER (PARTITION BY given.id ORDER BY given.number) AS of_id,
                row_number() OVER (
                    PARTITION BY coalesce(given.kind, p_kinds[1]), given.dedup_key
                    ORDER BY given.number
                ) AS of_key
            FROM unnest(p_ids, p_kinds, p_dedup_keys)
                WITH ORDINALITY AS given (id, kind, dedup_key, number)
        ) AS given
        WHERE of_id = 1
            AND (of_key = 1 OR dedup_key IS NULL)
            AND NOT EXISTS (SELECT FROM holdfast.ids WHERE ids.id = given.id)
            AND NOT EXISTS (
                SELECT FROM holdfast.jobs
                WHERE jobs.kind = given.kind
                    AND jobs.dedup_key = given.dedup_key
                    AND jobs.dedup_key IS NOT NULL
                    AND jobs.status NOT IN ('failed', 'cancelled')
            );
        IF wanted IS NOT NULL THEN
            BEGIN
                PERFORM holdfast.create_jobs(
                    p_ids, p_lanes, p_kinds, p_statuses, p_arguments, p_priorities,
                    p_max_attempts, p_run_ats, p_deadlines, p_dedup_keys, p_owners, p_metas,
                    wanted, t
                );
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
        SELECT array_agg(answers.number), array_agg(answers.twin) INTO numbers, twins
        FROM holdfast.twins_of(p_ids, p_kinds, p_dedup_keys, made) AS answers;
        -- A twin may have failed between the two looks; then its place is free.
        EXIT WHEN array_position(twins, NULL) IS NULL;
    END LOOP;
    RETURN QUERY SELECT * FROM unnest(numbers, twins);
END
$$;

-- Create jobs, all or none. `p_notify` wakes workers with the commit; `p_all_new` says that nothing
-- is likely to stand in the way, and fails where something does.
CREATE FUNCTION holdfast.enqueue(
    p_ids text[],
    p_lanes integer[],
    p_kinds text[],
    p_statuses text[],
    p_arguments text[],
    p_priorities smallint[],
    p_max_attempts integer[],
    p_run_ats double precision[],
    p_deadlines double precision[],
    p_dedup_keys text[],
    p_owners text[],
    p_metas text[],
    p_all_new boolean,
    p_notify boolean,
    p_now double precision
) RETURNS TABLE (number bigint, twin text)
LANGUAGE plpgsql AS $$
DECLARE
    t double precision := holdfast.time_of(p_now);
BEGIN
    IF p_all_new THEN
        PERFORM holdfast.create_jobs(
            p_ids, p_lanes, p_kinds, p_statuses, p_arguments, p_priorities, p_max_attempts,
            p_run_ats, p_deadlines, p_dedup_keys, p_owners, p_metas, NULL, t
        );
    ELSE
        RETURN QUERY SELECT * FROM holdfast.create_missing_jobs(
            p_ids, p_lanes, p_kinds, p_statuses, p_arguments, p_priorities, p_max_attempts,
            p_run_ats, p_deadlines, p_dedup_keys, p_owners, p_metas, t
        );
    END IF;
    IF p_notify THEN
        PERFORM pg_notify('holdfast', 'work');
    END IF;
END
$$;
