-- Creating jobs in one round trip. Each statement of a function sees what was committed before
-- that statement began (READ COMMITTED).

-- Create the jobs whose numbers are `wanted`; NULL means all. Fails where an id is taken or a twin
-- exists. A job's seq is the sequence of its first event, if all jobs have the same status; events of
-- another status than the first have their own page.
CREATE OR REPLACE FUNCTION holdfast.create_jobs(
    p_jobs holdfast.new_jobs, wanted integer[], t double precision
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    page bigint := holdfast.next_page();
    other bigint := CASE WHEN cardinality(p_jobs.statuses) > 1 THEN holdfast.next_page() END;
    before_first bigint := page - cardinality(p_jobs.ids);
    usual holdfast.status := p_jobs.statuses[1];
BEGIN
    WITH given AS (
        SELECT
            id, coalesce(number, place) AS number, coalesce(lane, p_jobs.lanes[1]) AS lane,
            coalesce(kind, p_jobs.kinds[1]) AS kind, coalesce(given.status, usual) AS status,
            coalesce(given.arguments, p_jobs.arguments[1]) AS arguments,
            coalesce(priority, p_jobs.priorities[1]) AS priority,
            coalesce(given.max_attempts, p_jobs.max_attempts[1]) AS max_attempts,
            run_at, deadline_at, dedup_key, owner, meta
        FROM unnest(
            p_jobs.ids, p_jobs.numbers, p_jobs.lanes, p_jobs.kinds, p_jobs.statuses,
            p_jobs.arguments, p_jobs.priorities, p_jobs.max_attempts, p_jobs.run_ats,
            p_jobs.deadlines, p_jobs.dedup_keys, p_jobs.owners, p_jobs.metas
        ) WITH ORDINALITY AS given (
            id, number, lane, kind, status, arguments, priority, max_attempts, run_at,
            deadline_at, dedup_key, owner, meta, place
        )
        WHERE wanted IS NULL OR coalesce(number, place) IN (SELECT unnest(wanted))
    ), created AS (
        INSERT INTO holdfast.jobs (
            seq, last_event, id, lane, kind, status, ready, priority, ready_at, max_attempts,
            created_at, queued_at, deadline_at, dedup_key, owner, meta, arguments
        )
        SELECT
            before_first + number, CASE WHEN status = usual THEN page ELSE other END, id, lane,
            kind, status, status = 'queued' AND coalesce(run_at, 0) <= t, priority,
            greatest(run_at, t), max_attempts, t, CASE WHEN status = 'queued' THEN t END,
            deadline_at, dedup_key, owner, meta, arguments
        FROM given
        RETURNING seq, last_event, id, owner, lane, status, ready
    ), named AS (
        -- In order, so that two calls that share ids cannot deadlock.
        INSERT INTO holdfast.ids (id, job, owner) SELECT id, seq, owner FROM created ORDER BY id
    ), recorded AS (
        INSERT INTO holdfast.history (sequence, at, name, jobs)
        SELECT last_event, t, status, array_agg(seq) FROM created GROUP BY last_event, status
    )
    INSERT INTO holdfast.counter_deltas (delta, family, a, b)
    SELECT count(*), 'lane', lane, holdfast.place_of(status, ready)
    FROM created
    GROUP BY lane, status, ready;
END
$$;

-- Create the jobs whose id is free and that have no twin, all or none. Returns one row for each job
-- that was not created: its number, and the id of the job that exists instead.
CREATE OR REPLACE FUNCTION holdfast.create_missing_jobs(p_jobs holdfast.new_jobs, t double precision)
RETURNS TABLE (number integer, twin text)
LANGUAGE plpgsql AS $$
DECLARE
    wanted integer[];
    answered integer[] := '{}';
    refused integer := 0;
    found record;
    places integer[] := '{}';
    twins text[] := '{}';
BEGIN
    LOOP
        -- The first job of each id, and of those the first of each key, where neither is stored.
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
                    coalesce(given.number, place)::integer AS number,
                    row_number() OVER (
                        PARTITION BY given.id ORDER BY coalesce(given.number, place)
                    ) AS of_id
                FROM unnest(p_jobs.ids, p_jobs.numbers, p_jobs.kinds, p_jobs.dedup_keys)
                    WITH ORDINALITY AS given (id, number, kind, dedup_key, place)
                WHERE coalesce(given.number, place) NOT IN (SELECT unnest(answered))
            ) AS given
            WHERE of_id = 1 AND holdfast.job_of(given.id) IS NULL
        ) AS named
        WHERE (of_key = 1 OR dedup_key IS NULL)
            AND NOT EXISTS (
                SELECT FROM holdfast.jobs
                WHERE jobs.kind = named.kind
                    AND jobs.dedup_key = named.dedup_key
                    AND jobs.dedup_key IS NOT NULL
                    AND jobs.status NOT IN ('failed', 'cancelled')
            );
        IF wanted IS NOT NULL THEN
            BEGIN
                PERFORM holdfast.create_jobs(p_jobs, wanted, t);
                answered := answered || wanted;
            EXCEPTION WHEN unique_violation THEN
                -- Another caller was first and has committed by now, so look again. A transaction
                -- under REPEATABLE READ never sees that commit: give up.
                refused := refused + 1;
                IF refused = 5 THEN
                    RAISE;
                END IF;
                CONTINUE;
            END;
        END IF;
        EXIT WHEN cardinality(answered) = cardinality(p_jobs.ids);
        SELECT array_agg(stood.number) AS places, array_agg(stood.twin) AS twins INTO found
        FROM (
            SELECT
                given.number,
                CASE WHEN holdfast.job_of(given.id) IS NULL THEN jobs.id ELSE given.id END AS twin
            FROM (
                SELECT
                    given.id, coalesce(given.kind, p_jobs.kinds[1]) AS kind, given.dedup_key,
                    coalesce(given.number, place)::integer AS number
                FROM unnest(p_jobs.ids, p_jobs.numbers, p_jobs.kinds, p_jobs.dedup_keys)
                    WITH ORDINALITY AS given (id, number, kind, dedup_key, place)
                WHERE coalesce(given.number, place) NOT IN (SELECT unnest(answered))
            ) AS given
            LEFT JOIN holdfast.jobs
                ON jobs.kind = given.kind
                AND jobs.dedup_key = given.dedup_key
                AND jobs.dedup_key IS NOT NULL
                AND jobs.status NOT IN ('failed', 'cancelled')
        ) AS stood
        WHERE stood.twin IS NOT NULL;
        places := places || found.places;
        twins := twins || found.twins;
        answered := answered || found.places;
        -- A job without an answer: its twin failed between the two statements, or the job before it
        -- with the same id was not created. Try again.
        EXIT WHEN cardinality(answered) = cardinality(p_jobs.ids);
    END LOOP;
    RETURN QUERY SELECT * FROM unnest(places, twins);
END
$$;

-- Create jobs, all or none, at most 10000. `p_notify` wakes workers with the commit. `p_all_new` says
-- that ids and keys are probably new; the call fails where one is not. The settings are for a
-- caller's connection, which has none of ours.
CREATE OR REPLACE FUNCTION holdfast.enqueue(
    p_jobs holdfast.new_jobs, p_all_new boolean, p_notify boolean, p_now double precision
) RETURNS TABLE (number integer, twin text)
LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
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
