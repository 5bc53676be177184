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

-- The job that has an id; NULL where none has.
CREATE FUNCTION holdfast.job_of(p_id text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    found bigint;
BEGIN
    SELECT job INTO found FROM holdfast.ids WHERE id = p_id;
    IF found IS NULL AND p_id ~ '^.{22}[0-9]{4}.{6}$' THEN
        SELECT jobs.seq INTO found
        FROM holdfast.stems
        JOIN holdfast.jobs ON jobs.seq = stems.job + substr(p_id, 23, 4)::integer
        WHERE stems.stem = left(p_id, 22) AND jobs.id = p_id;
    END IF;
    RETURN found;
END
$$;

-- Jobs to be created, a column an array. One of what no job can miss may hold one value for all of
-- them, but for the ids; one of what a job can miss may be NULL. Where there are dedup keys the jobs
-- come in their order, so that two calls that share some never wait for each other in a ring, and
-- `numbers` are the places, from 1, that they were given in. `in_a_row` says that their ids were
-- made in a row, from 0000 on.
CREATE TYPE holdfast.new_jobs AS (
    status       holdfast.status,
    in_a_row     boolean,
    ids          text[],
    numbers      integer[],
    lanes        integer[],
    kinds        text[],
    arguments    text[],
    priorities   smallint[],
    max_attempts integer[],
    run_ats      double precision[],
    deadlines    double precision[],
    dedup_keys   text[],
    owners       text[],
    metas        text[]
);

-- Enter the ids of new jobs, and fail where one is taken. The job with number 1 has `p_first` + 1. An
-- id that was entered the other way is looked for, and nobody can be entering it just now: one that
-- was made is known to nobody before it is committed.
CREATE FUNCTION holdfast.enter_ids(
    p_jobs holdfast.new_jobs, wanted integer[], p_first bigint
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    stems text[];
BEGIN
    IF wanted IS NULL AND p_jobs.in_a_row THEN
        stems := ARRAY[left(p_jobs.ids[1], 22)];
        PERFORM FROM holdfast.ids WHERE id > stems[1] AND id < stems[1] || ':';
    ELSIF wanted IS NULL THEN
        PERFORM FROM holdfast.stems WHERE stem = ANY (ARRAY(
            SELECT left(id, 22) FROM unnest(p_jobs.ids) AS given (id) WHERE length(id) = 32
        ));
    END IF;
    IF wanted IS NULL AND FOUND THEN
        RAISE unique_violation;
    END IF;
    IF stems IS NOT NULL THEN
        INSERT INTO holdfast.stems VALUES (stems[1], p_first + 1);
    ELSE
        INSERT INTO holdfast.ids (id, job, owner)
        SELECT id, p_first + coalesce(number, place), owner
        FROM unnest(p_jobs.ids, p_jobs.numbers, p_jobs.owners)
            WITH ORDINALITY AS given (id, number, owner, place)
        WHERE wanted IS NULL OR coalesce(number, place) = ANY (wanted);
    END IF;
END
$$;

-- Create the jobs whose numbers are `wanted`; NULL means all. Fails where an id is taken or a twin
-- exists. Their history begins with a page of their own, and they are numbered as its lines are.
CREATE FUNCTION holdfast.create_jobs(
    p_jobs holdfast.new_jobs, wanted integer[], t double precision
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    page bigint := holdfast.next_page();
    first bigint := page - cardinality(p_jobs.ids);
    queued boolean := p_jobs.status = 'queued';
BEGIN
    INSERT INTO holdfast.jobs (
        seq, last_event, id, lane, kind, status, waits, ready, priority, ready_at, max_attempts,
        created_at, queued_at, deadline_at, expires_at, dedup_key, owner, meta, arguments
    )
    SELECT
        first + coalesce(number, place), page, id, coalesce(lane, p_jobs.lanes[1]),
        coalesce(kind, p_jobs.kinds[1]), p_jobs.status, queued,
        queued AND coalesce(run_at, 0) <= t, coalesce(priority, p_jobs.priorities[1]),
        greatest(run_at, t), coalesce(given.max_attempts, p_jobs.max_attempts[1]), t,
        CASE WHEN queued THEN t END, deadline_at, deadline_at, dedup_key, owner, meta,
        coalesce(given.arguments, p_jobs.arguments[1])
    FROM unnest(
        p_jobs.ids, p_jobs.numbers, p_jobs.lanes, p_jobs.kinds, p_jobs.arguments,
        p_jobs.priorities, p_jobs.max_attempts, p_jobs.run_ats, p_jobs.deadlines,
        p_jobs.dedup_keys, p_jobs.owners, p_jobs.metas
    ) WITH ORDINALITY AS given (
        id, number, lane, kind, arguments, priority, max_attempts, run_at, deadline_at, dedup_key,
        owner, meta, place
    )
    WHERE wanted IS NULL OR coalesce(number, place) = ANY (wanted);
    PERFORM holdfast.enter_ids(p_jobs, wanted, first);
    INSERT INTO holdfast.history (sequence, at, name, jobs)
    VALUES (page, t, p_jobs.status, ARRAY(
        SELECT first + number
        FROM generate_series(1, cardinality(p_jobs.ids)) AS given (number)
        WHERE wanted IS NULL OR number = ANY (wanted)
    ));
    INSERT INTO holdfast.counter_deltas (delta, family, a, b)
    SELECT count(*), 'lane', lane, holdfast.place_of(p_jobs.status, ready)
    FROM (
        SELECT
            coalesce(lane, p_jobs.lanes[1]) AS lane, queued AND coalesce(run_at, 0) <= t AS ready
        FROM unnest(p_jobs.ids, p_jobs.numbers, p_jobs.lanes, p_jobs.run_ats)
            WITH ORDINALITY AS given (id, number, lane, run_at, place)
        WHERE wanted IS NULL OR coalesce(number, place) = ANY (wanted)
    ) AS fresh
    GROUP BY lane, ready;
END
$$;

-- Create those jobs whose id is free and that have no twin, all or none. Returns a row for each
-- that was not created: its number, and the id of the job that stands in its place.
CREATE FUNCTION holdfast.create_missing_jobs(p_jobs holdfast.new_jobs, t double precision)
RETURNS TABLE (number integer, twin text)
LANGUAGE plpgsql AS $$
DECLARE
    wanted integer[];
    made integer[] := '{}';
    refused integer := 0;
    places integer[];
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
                    coalesce(given.number, given.place)::integer AS number,
                    row_number() OVER (
                        PARTITION BY given.id ORDER BY coalesce(given.number, given.place)
                    ) AS of_id
                FROM unnest(p_jobs.ids, p_jobs.numbers, p_jobs.kinds, p_jobs.dedup_keys)
                    WITH ORDINALITY AS given (id, number, kind, dedup_key, place)
            ) AS given
            WHERE of_id = 1 AND holdfast.job_of(given.id) IS NULL
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
        INTO places, twins
        FROM (
            SELECT
                given.id, coalesce(given.kind, p_jobs.kinds[1]) AS kind, given.dedup_key,
                coalesce(given.number, given.place)::integer AS number,
                holdfast.job_of(given.id) AS job
            FROM unnest(p_jobs.ids, p_jobs.numbers, p_jobs.kinds, p_jobs.dedup_keys)
                WITH ORDINALITY AS given (id, number, kind, dedup_key, place)
            WHERE coalesce(given.number, given.place) <> ALL (made)
        ) AS given
        LEFT JOIN holdfast.jobs AS own ON own.seq = given.job
        LEFT JOIN holdfast.jobs AS others
            ON others.kind = given.kind
            AND others.dedup_key = given.dedup_key
            AND others.dedup_key IS NOT NULL
            AND others.ended_badly_at IS NULL;
        -- A twin may have failed between the two looks; then its place is free.
        EXIT WHEN array_position(twins, NULL) IS NULL;
    END LOOP;
    RETURN QUERY SELECT * FROM unnest(places, twins);
END
$$;

-- Create jobs, all or none, at most as many as a page of history has lines. `p_notify` wakes workers
-- with the commit; `p_all_new` says that nothing is likely to stand in the way, and fails where
-- something does.
CREATE FUNCTION holdfast.enqueue(
    p_jobs holdfast.new_jobs, p_all_new boolean, p_notify boolean, p_now double precision
) RETURNS TABLE (number integer, twin text)
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
