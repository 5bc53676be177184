-- Deleting finished jobs with their history.

-- The jobs of one kind and status that finished first, locked.
CREATE OR REPLACE FUNCTION holdfast.oldest_finished(p_kind text, p_status text, p_limit integer)
RETURNS TABLE (seq bigint, finished_at double precision)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF p_status = 'complete' THEN
        RETURN QUERY
        SELECT jobs.seq, jobs.finished_at
        FROM holdfast.completed
        JOIN holdfast.events ON events.page = completed.page
        JOIN holdfast.jobs ON jobs.seq = events.job AND jobs.kind = completed.kind
        WHERE completed.kind = p_kind
        ORDER BY completed.page, events.place
        LIMIT p_limit
        FOR UPDATE OF jobs SKIP LOCKED;
    ELSE
        RETURN QUERY
        SELECT jobs.seq, jobs.finished_at
        FROM holdfast.jobs
        WHERE jobs.kind = p_kind
            AND jobs.status = p_status::holdfast.status
            AND jobs.status IN ('failed', 'cancelled')
        ORDER BY jobs.finished_at, jobs.seq
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED;
    END IF;
END
$$;

-- Delete finished jobs with all their history. A page of history is deleted with the last of its jobs.
-- One process at a time: two would each leave their common pages to the other.
CREATE OR REPLACE FUNCTION holdfast.delete_jobs(p_jobs bigint[])
RETURNS TABLE (id text, kind text, status text, owner text, meta text, result text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    touched bigint[];
    kinds text[];
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('holdfast retention', 0));
    SELECT array_agg(DISTINCT jobs.kind) INTO kinds FROM holdfast.jobs WHERE jobs.seq = ANY (p_jobs);
    PERFORM holdfast.note_last_use(p_jobs);
    DELETE FROM holdfast.late_results WHERE late_results.job = ANY (p_jobs);
    WITH RECURSIVE pages (sequence) AS (
        SELECT jobs.last_event FROM holdfast.jobs WHERE jobs.seq = ANY (p_jobs)
        UNION
        SELECT line.previous
        FROM pages
        JOIN holdfast.history ON history.sequence = pages.sequence
        CROSS JOIN LATERAL unnest(history.jobs, history.previous) AS line (job, previous)
        WHERE line.job = ANY (p_jobs) AND line.previous IS NOT NULL
    )
    SELECT array_agg(pages.sequence) INTO touched FROM pages;
    RETURN QUERY
    WITH gone AS (
        DELETE FROM holdfast.jobs WHERE jobs.seq = ANY (p_jobs)
        RETURNING jobs.*
    ), counted AS (
        INSERT INTO holdfast.counter_deltas (delta, family, a, b, c)
        SELECT -count(*), 'lane', lane::text, status::text, '' FROM gone GROUP BY lane, status
        UNION ALL
        SELECT -count(*), 'dead', kind, error_code, error_group
        FROM gone
        WHERE dead_letter IS NOT NULL
        GROUP BY kind, error_code, error_group
        UNION ALL
        SELECT count(*), 'total', 'deleted', '', '' FROM gone
    ), unnamed AS (
        DELETE FROM holdfast.ids USING gone WHERE ids.id = gone.id AND ids.job = gone.seq
    )
    SELECT gone.id, gone.kind, gone.status::text, gone.owner, gone.meta, gone.result
    FROM gone
    ORDER BY gone.finished_at, gone.seq;
    DELETE FROM holdfast.history
    WHERE history.sequence = ANY (touched)
        AND NOT EXISTS (
            SELECT FROM unnest(history.jobs) AS line (job)
            JOIN holdfast.jobs ON jobs.seq = line.job
        );
    DELETE FROM holdfast.completed
    WHERE completed.kind = ANY (kinds)
        AND completed.page = ANY (touched)
        AND NOT EXISTS (
            SELECT FROM holdfast.events
            JOIN holdfast.jobs ON jobs.seq = events.job AND jobs.kind = completed.kind
            WHERE events.page = completed.page
        );
END
$$;

-- Delete finished jobs of one kind and status, oldest first, with all their history: those that
-- finished `p_max_age` seconds ago, and all but the newest `p_max_count`. One process at
-- a time: two that count before either deletes would delete twice as many.
CREATE OR REPLACE FUNCTION holdfast.delete_finished(
    p_kind text,
    p_status text,
    p_max_age double precision,
    p_max_count bigint,
    p_limit integer,
    p_now double precision
) RETURNS TABLE (id text, owner text, meta text, result text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    t double precision := holdfast.time_of(p_now);
    going bigint[];
    excess bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('holdfast retention', 0));
    IF p_max_count IS NOT NULL THEN
        SELECT sum(counted.n) - p_max_count INTO excess
        FROM (
            SELECT count AS n FROM holdfast.counters
            WHERE family = 'kind' AND a = p_kind AND b = p_status AND c = ''
            UNION ALL
            SELECT deltas.delta
            FROM holdfast.counter_deltas AS deltas
            JOIN holdfast.lanes ON lanes.id = CASE deltas.family WHEN 'lane' THEN deltas.a::integer END
            WHERE deltas.family = 'lane' AND deltas.b = p_status AND lanes.kind = p_kind
        ) AS counted;
    END IF;
    IF coalesce(excess, 0) <= 0 THEN
        -- Usually there is nothing to delete: look at the oldest job only.
        PERFORM FROM holdfast.oldest_finished(p_kind, p_status, 1) AS oldest
        WHERE oldest.finished_at <= t - p_max_age;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    SELECT array_agg(seq) INTO going
    FROM (
        SELECT seq, finished_at, row_number() OVER (ORDER BY finished_at, seq) AS rank
        FROM holdfast.oldest_finished(p_kind, p_status, p_limit)
    ) AS oldest
    WHERE rank <= excess OR finished_at <= t - p_max_age;
    IF going IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT deleted.id, deleted.owner, deleted.meta, deleted.result
    FROM holdfast.delete_jobs(going) AS deleted;
END
$$;

-- Delete the finished jobs among `p_ids` with all their history.
CREATE OR REPLACE FUNCTION holdfast.delete_of_ids(p_ids text[])
RETURNS TABLE (id text, kind text, status text, owner text, meta text, result text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    going bigint[];
BEGIN
    -- Before the rows: retention has it before it locks any.
    PERFORM pg_advisory_xact_lock(hashtextextended('holdfast retention', 0));
    SELECT array_agg(seq) INTO going
    FROM (
        SELECT jobs.seq
        FROM holdfast.jobs
        WHERE jobs.seq = ANY (ARRAY(SELECT holdfast.job_of(given.id) FROM unnest(p_ids) AS given (id)))
            AND jobs.status IN ('complete', 'failed', 'cancelled')
        ORDER BY jobs.seq
        FOR UPDATE
    ) AS finished;
    IF going IS NOT NULL THEN
        RETURN QUERY SELECT * FROM holdfast.delete_jobs(going);
    END IF;
END
$$;
