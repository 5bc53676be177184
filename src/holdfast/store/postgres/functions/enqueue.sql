-- Creating jobs in one round trip. Each statement of a function sees what was committed before
-- that statement began (READ COMMITTED).
-- Nothing here joins the given jobs with a table or with each other: the planner knows neither how
-- many are given nor, on a new database, how large a table is. Hence scalar subqueries, which are
-- always one look into an index per job, and arrays with one element per job.

-- Create all jobs given. Fails where an id is taken or a twin exists. `p_seqs` are the numbers of the
-- jobs; where it is NULL, a job's seq is the sequence of its first event, if all jobs have the same
-- status. Events of another status than the first have their own page.
-- The given arrays are unnested here and in create_free_jobs: a function for it cost 4 % of a bulk.
CREATE OR REPLACE FUNCTION holdfast.create_jobs(
    p_jobs holdfast.new_jobs, p_seqs bigint[], t double precision
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    page bigint := holdfast.next_page();
    other bigint := CASE WHEN cardinality(p_jobs.statuses) > 1 THEN holdfast.next_page() END;
    before_first bigint := abs(page) - cardinality(p_jobs.ids);
    usual holdfast.status := p_jobs.statuses[1];
BEGIN
    WITH given AS (
        SELECT
            id, coalesce(seq, before_first + coalesce(number, place)) AS seq,
            coalesce(lane, p_jobs.lanes[1]) AS lane,
            coalesce(kind, p_jobs.kinds[1]) AS kind, coalesce(given.status, usual) AS status,
            coalesce(given.arguments, p_jobs.arguments[1]) AS arguments,
            coalesce(priority, p_jobs.priorities[1]) AS priority,
            coalesce(given.max_attempts, p_jobs.max_attempts[1]) AS max_attempts,
            run_at, deadline_at, dedup_key, owner, meta
        FROM unnest(
            p_jobs.ids, p_jobs.numbers, p_seqs, p_jobs.lanes, p_jobs.kinds, p_jobs.statuses,
            p_jobs.arguments, p_jobs.priorities, p_jobs.max_attempts, p_jobs.run_ats,
            p_jobs.deadlines, p_jobs.dedup_keys, p_jobs.owners, p_jobs.metas
        ) WITH ORDINALITY AS given (
            id, number, seq, lane, kind, status, arguments, priority, max_attempts, run_at,
            deadline_at, dedup_key, owner, meta, place
        )
    ), created AS (
        INSERT INTO holdfast.jobs (
            seq, last_event, id, lane, kind, status, ready, priority, ready_at, max_attempts,
            created_at, queued_at, deadline_at, dedup_key, owner, meta, arguments
        )
        SELECT
            seq, CASE WHEN status = usual THEN page ELSE other END, id, lane, kind,
            status, status = 'queued' AND coalesce(run_at, 0) <= t, priority,
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
    SELECT count(*), 'lane', lane, holdfast.lane_counter(status, ready)
    FROM created
    GROUP BY lane, status, ready;
END
$$;

-- Create those of the chosen jobs whose id is free and that have no twin, the first of each id and of
-- those the first of each key; return how many. Another caller with the same ids or keys is waited
-- for. Ids are entered before keys and both in order, so that two calls cannot deadlock. A transaction
-- under REPEATABLE READ or SERIALIZABLE that cannot see the other's job gets a serialization failure.
CREATE OR REPLACE FUNCTION holdfast.create_free_jobs(
    p_jobs holdfast.new_jobs, p_seqs bigint[], p_chosen boolean[], p_page bigint, t double precision
) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    other bigint := CASE WHEN cardinality(p_jobs.statuses) > 1 THEN holdfast.next_page() END;
    usual holdfast.status := p_jobs.statuses[1];
    named bigint;
    made bigint;
BEGIN
    INSERT INTO holdfast.ids (id, job, owner)
    SELECT line.id, line.seq, line.owner
    FROM unnest(p_jobs.ids, p_seqs, p_jobs.owners, p_chosen) AS line (id, seq, owner, chosen)
    WHERE line.chosen
    ORDER BY line.id COLLATE "C", line.seq
    ON CONFLICT (id) DO NOTHING;
    GET DIAGNOSTICS named = ROW_COUNT;
    IF named < cardinality(array_positions(p_chosen, true)) THEN
        SELECT array_agg(
            coalesce(line.chosen AND line.seq = (
                SELECT ids.job FROM holdfast.ids WHERE ids.id = line.id
            ), false)
            ORDER BY line.place
        )
        INTO p_chosen
        FROM unnest(p_jobs.ids, p_seqs, p_chosen)
            WITH ORDINALITY AS line (id, seq, chosen, place);
    END IF;
    WITH given AS (
        SELECT
            id, seq, coalesce(lane, p_jobs.lanes[1]) AS lane,
            coalesce(kind, p_jobs.kinds[1]) AS kind, coalesce(given.status, usual) AS status,
            coalesce(given.arguments, p_jobs.arguments[1]) AS arguments,
            coalesce(priority, p_jobs.priorities[1]) AS priority,
            coalesce(given.max_attempts, p_jobs.max_attempts[1]) AS max_attempts,
            run_at, deadline_at, dedup_key, owner, meta
        FROM unnest(
            p_jobs.ids, p_seqs, p_chosen, p_jobs.lanes, p_jobs.kinds, p_jobs.statuses,
            p_jobs.arguments, p_jobs.priorities, p_jobs.max_attempts, p_jobs.run_ats,
            p_jobs.deadlines, p_jobs.dedup_keys, p_jobs.owners, p_jobs.metas
        ) AS given (
            id, seq, chosen, lane, kind, status, arguments, priority, max_attempts, run_at,
            deadline_at, dedup_key, owner, meta
        )
        WHERE chosen
    ), created AS (
        INSERT INTO holdfast.jobs (
            seq, last_event, id, lane, kind, status, ready, priority, ready_at, max_attempts,
            created_at, queued_at, deadline_at, dedup_key, owner, meta, arguments
        )
        SELECT
            seq, CASE WHEN status = usual THEN p_page ELSE other END, id, lane, kind,
            status, status = 'queued' AND coalesce(run_at, 0) <= t, priority,
            greatest(run_at, t), max_attempts, t, CASE WHEN status = 'queued' THEN t END,
            deadline_at, dedup_key, owner, meta, arguments
        FROM given
        ON CONFLICT (kind, dedup_key)
            WHERE dedup_key IS NOT NULL AND status NOT IN ('failed', 'cancelled')
            DO NOTHING
        RETURNING seq, last_event, lane, status, ready
    ), recorded AS (
        INSERT INTO holdfast.history (sequence, at, name, jobs)
        SELECT last_event, t, status, array_agg(seq) FROM created GROUP BY last_event, status
    ), counted AS (
        INSERT INTO holdfast.counter_deltas (delta, family, a, b)
        SELECT count(*), 'lane', lane, holdfast.lane_counter(status, ready)
        FROM created
        GROUP BY lane, status, ready
        RETURNING delta
    )
    SELECT coalesce(sum(delta), 0) INTO made FROM counted;
    IF made < named THEN
        -- A twin was first: remove the ids that have no job.
        DELETE FROM holdfast.ids
        WHERE ids.id = ANY (ARRAY(
            SELECT line.id
            FROM unnest(p_jobs.ids, p_seqs, p_chosen) AS line (id, seq, chosen)
            WHERE line.chosen
                AND (SELECT jobs.seq FROM holdfast.jobs WHERE jobs.seq = line.seq) IS NULL
        ));
    END IF;
    RETURN made;
END
$$;

-- Create the jobs whose id is free and that have no twin, all or none. Returns one row for each job
-- that was not created: its number, and the id of the job that exists instead.
CREATE OR REPLACE FUNCTION holdfast.create_missing_jobs(
    p_jobs holdfast.new_jobs, p_seqs bigint[], t double precision
) RETURNS TABLE (number integer, twin text)
LANGUAGE plpgsql AS $$
DECLARE
    seqs bigint[] := p_seqs;
    page bigint;
    twins text[];
    missing boolean[];
BEGIN
    LOOP
        -- MATERIALIZED, or a look into the index would be repeated for each use of `job`.
        WITH named AS MATERIALIZED (
            SELECT
                place, seq, id, dedup_key, coalesce(kind, p_jobs.kinds[1]) AS kind, known_twin,
                (SELECT ids.job FROM holdfast.ids WHERE ids.id = given.id) AS job
            FROM unnest(p_jobs.ids, p_jobs.kinds, p_jobs.dedup_keys, seqs, twins)
                WITH ORDINALITY AS given (id, kind, dedup_key, seq, known_twin, place)
        ), answered AS MATERIALIZED (
            SELECT
                place, job,
                CASE
                    WHEN known_twin IS NOT NULL THEN known_twin
                    WHEN job = seq THEN NULL
                    WHEN job IS NOT NULL THEN id
                    ELSE (
                        SELECT jobs.id
                        FROM holdfast.jobs
                        WHERE jobs.kind = named.kind
                            AND jobs.dedup_key = named.dedup_key
                            AND jobs.dedup_key IS NOT NULL
                            AND jobs.status NOT IN ('failed', 'cancelled')
                    )
                END AS twin
            FROM named
        )
        SELECT
            array_agg(answered.twin ORDER BY place),
            array_agg(job IS NULL AND answered.twin IS NULL ORDER BY place)
        INTO twins, missing
        FROM answered;
        EXIT WHEN NOT true = ANY (missing);
        page := holdfast.next_page();
        IF seqs IS NULL THEN
            SELECT array_agg(
                abs(page) - cardinality(p_jobs.ids) + coalesce(line.number, line.place)
                ORDER BY line.place
            )
            INTO seqs
            FROM unnest(p_jobs.ids, p_jobs.numbers)
                WITH ORDINALITY AS line (id, number, place);
        END IF;
        -- What was not created is another caller's by now, or the second of its id or key: look again.
        EXIT WHEN holdfast.create_free_jobs(p_jobs, seqs, missing, page, t)
            = cardinality(p_jobs.ids);
    END LOOP;
    RETURN QUERY
    SELECT coalesce(line.number, line.place)::integer, line.twin
    FROM unnest(twins, p_jobs.numbers) WITH ORDINALITY AS line (twin, number, place)
    WHERE line.twin IS NOT NULL;
END
$$;

-- Say whether lanes still are what a process remembers of them, and keep them from being deleted until
-- the transaction ends. They may have been deleted, and after a failover their ids may be those of
-- others. The arrays may hold one value for all jobs; queues and downstreams may be NULL.
CREATE OR REPLACE FUNCTION holdfast.lanes_are_known(
    p_lanes integer[], p_queues text[], p_downstreams text[], p_kinds text[]
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM holdfast.lanes WHERE lanes.id = ANY (p_lanes) ORDER BY lanes.id FOR KEY SHARE;
    PERFORM FROM (
        SELECT DISTINCT
            coalesce(lane, p_lanes[1]) AS lane, coalesce(queue, p_queues[1]) AS queue,
            coalesce(downstream, p_downstreams[1]) AS downstream,
            coalesce(kind, p_kinds[1]) AS kind
        FROM unnest(p_lanes, p_queues, p_downstreams, p_kinds)
            AS given (lane, queue, downstream, kind)
    ) AS given
    WHERE (
        SELECT lanes.kind = given.kind
            AND lanes.queue = coalesce(given.queue, lanes.queue)
            AND lanes.downstream = coalesce(given.downstream, lanes.downstream)
        FROM holdfast.lanes
        WHERE lanes.id = given.lane
    ) IS NOT TRUE;
    IF FOUND AND current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'could not serialize access: a lane is newer than this transaction'
            USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN NOT FOUND;
END
$$;

-- Create jobs, all or none, at most 10000. `p_seqs` are the numbers they get, where a call has more
-- jobs than that; NULL for the next ones. `p_notify` wakes workers with the commit. `p_all_new` says
-- that ids and keys are probably new; the call fails where one is not. Where the lanes are not those of
-- `p_queues` and `p_downstreams` nothing is created, and the answer is the number 0. The settings are
-- for a caller's connection, which has none of ours.
CREATE OR REPLACE FUNCTION holdfast.enqueue(
    p_jobs holdfast.new_jobs,
    p_seqs bigint[],
    p_queues text[],
    p_downstreams text[],
    p_all_new boolean,
    p_notify boolean,
    p_now double precision
) RETURNS TABLE (number integer, twin text)
LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    t double precision := holdfast.time_of(p_now);
BEGIN
    IF NOT holdfast.lanes_are_known(p_jobs.lanes, p_queues, p_downstreams, p_jobs.kinds) THEN
        RETURN QUERY SELECT 0, NULL::text;
        RETURN;
    END IF;
    IF p_notify THEN
        -- It is a caller's transaction; see holdfast.next_page.
        PERFORM set_config('holdfast.joined', 'yes', true);
    END IF;
    IF p_all_new THEN
        PERFORM holdfast.create_jobs(p_jobs, p_seqs, t);
    ELSE
        RETURN QUERY SELECT * FROM holdfast.create_missing_jobs(p_jobs, p_seqs, t);
    END IF;
    IF p_notify THEN
        PERFORM pg_notify('holdfast', 'work');
    END IF;
END
$$;

-- The same as workers of the release before call it.
CREATE OR REPLACE FUNCTION holdfast.enqueue(
    p_jobs holdfast.new_jobs, p_all_new boolean, p_notify boolean, p_now double precision
) RETURNS TABLE (number integer, twin text)
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT holdfast.lanes_are_known(p_jobs.lanes, NULL, NULL, p_jobs.kinds) THEN
        RAISE EXCEPTION 'a lane that this process remembers was deleted: restart it'
            USING ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN QUERY
    SELECT * FROM holdfast.enqueue(p_jobs, NULL, NULL, NULL, p_all_new, p_notify, p_now);
END
$$;

-- Jobs with a rule of their own for twins: see DedupRule in jobs/dedup.py. A rule is `unfinished`, NULL
-- for a job without one, and `seconds`.

-- Take dedup keys from jobs that do not count as twins, one after the other in the order given, which
-- all callers share. Two callers with the same key: the second waits for the first, then finds its job.
-- With the rights of the schema's owner, as the next function: a role that may only enqueue changes no
-- other column.
CREATE OR REPLACE FUNCTION holdfast.release_dedup_keys(
    p_ids text[], p_kinds text[], p_keys text[], p_unfinished boolean[],
    p_seconds double precision[], t double precision
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    given record;
BEGIN
    FOR given IN
        SELECT id, coalesce(kind, p_kinds[1]) AS kind, key, unfinished, seconds
        FROM unnest(p_ids, p_kinds, p_keys, p_unfinished, p_seconds)
            AS line (id, kind, key, unfinished, seconds)
        WHERE unfinished IS NOT NULL
    LOOP
        UPDATE holdfast.jobs SET dedup_key = NULL
        WHERE jobs.kind = given.kind
            AND jobs.dedup_key = given.key
            AND jobs.dedup_key IS NOT NULL
            AND jobs.status NOT IN ('failed', 'cancelled')
            AND jobs.id <> given.id
            AND (
                (given.unfinished AND jobs.finished_at IS NOT NULL)
                OR jobs.created_at <= t - given.seconds
            );
    END LOOP;
END
$$;

-- Note the rules of jobs that were just created, for their manual retries.
CREATE OR REPLACE FUNCTION holdfast.note_dedup_rules(
    p_ids text[], p_unfinished boolean[], p_seconds double precision[], t double precision
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    UPDATE holdfast.jobs SET
        dedup_unfinished = line.unfinished, dedup_seconds = line.seconds
    FROM unnest(p_ids, p_unfinished, p_seconds) AS line (id, unfinished, seconds)
    WHERE jobs.seq = (SELECT ids.job FROM holdfast.ids WHERE ids.id = line.id)
        AND line.unfinished IS NOT NULL
        AND jobs.dedup_unfinished IS NULL
        AND jobs.created_at = t;
END
$$;

-- holdfast.enqueue for a call in which some jobs have a rule.
CREATE OR REPLACE FUNCTION holdfast.enqueue_by_rule(
    p_jobs holdfast.new_jobs,
    p_seqs bigint[],
    p_queues text[],
    p_downstreams text[],
    p_unfinished boolean[],
    p_seconds double precision[],
    p_notify boolean,
    p_now double precision
) RETURNS TABLE (number integer, twin text)
LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    t double precision := holdfast.time_of(p_now);
BEGIN
    IF NOT holdfast.lanes_are_known(p_jobs.lanes, p_queues, p_downstreams, p_jobs.kinds) THEN
        RETURN QUERY SELECT 0, NULL::text;
        RETURN;
    END IF;
    PERFORM holdfast.release_dedup_keys(
        p_jobs.ids, p_jobs.kinds, p_jobs.dedup_keys, p_unfinished, p_seconds, t
    );
    RETURN QUERY
    SELECT * FROM holdfast.enqueue(p_jobs, p_seqs, p_queues, p_downstreams, false, p_notify, t);
    PERFORM holdfast.note_dedup_rules(p_jobs.ids, p_unfinished, p_seconds, t);
END
$$;
