-- Chores, each on a bounded number of jobs, each safe to run twice at once; and reading history.

-- Take back jobs whose leases have run out. `p_error` is code, message and group. A claim is looked at
-- when the first of its leases may have run out; where a heartbeat has let them last longer, or
-- there are more than `p_limit`, it is looked at again later.
CREATE FUNCTION holdfast.rescue(p_limit integer, p_error text[], p_now double precision)
RETURNS TABLE (id text, target text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    t double precision := holdfast.time_of(p_now);
    pages bigint[];
    lanes integer[];
    seqs bigint[];
    looked_at integer := 0;
    soonest double precision;
    lost record;
    lost_ids text[] := '{}';
    targets text[] := '{}';
    moves holdfast.move[] := '{}';
BEGIN
    -- Whoever reports has locked its job and may wait for a claim that is locked here; so no job is
    -- waited for, and no claim is touched but those.
    SELECT array_agg(page), array_agg(lane) INTO pages, lanes
    FROM (
        SELECT page, lane
        FROM holdfast.leases
        WHERE expires_at <= t
        ORDER BY expires_at
        LIMIT 500
        FOR UPDATE SKIP LOCKED
    ) AS due;
    WHILE looked_at < coalesce(cardinality(pages), 0) AND cardinality(moves) < p_limit LOOP
        looked_at := looked_at + 1;
        SELECT jobs INTO seqs FROM holdfast.history WHERE sequence = pages[looked_at];
        FOR lost IN
            SELECT
                jobs.seq, jobs.id,
                CASE
                    WHEN jobs.cancel_requested THEN 'cancelled'
                    WHEN jobs.attempt_count >= jobs.max_attempts THEN 'failed'
                    ELSE 'queued'
                END AS target
            FROM holdfast.jobs
            WHERE jobs.seq = ANY (seqs)
                AND jobs.claimed_in = pages[looked_at]
                AND jobs.lane = lanes[looked_at]
                AND jobs.lease_expires_at <= t
            LIMIT p_limit - cardinality(moves)
            FOR UPDATE SKIP LOCKED
        LOOP
            lost_ids := lost_ids || lost.id;
            targets := targets || lost.target;
            moves := moves || ROW(
                lost.seq, lost.target,
                CASE lost.target WHEN 'queued' THEN 'lease_lost' ELSE lost.target END,
                'lease_lost', p_error[1], p_error[2], p_error[3], 'lease_lost',
                CASE lost.target WHEN 'queued' THEN t END, NULL, false, NULL, NULL
            )::holdfast.move;
        END LOOP;
    END LOOP;
    IF moves <> '{}' THEN
        PERFORM holdfast.move(moves, t);
        PERFORM holdfast.count_total('rescued', cardinality(moves));
    END IF;
    FOR place IN 1..looked_at LOOP
        SELECT jobs INTO seqs FROM holdfast.history WHERE sequence = pages[place];
        SELECT min(jobs.lease_expires_at) INTO soonest
        FROM holdfast.jobs
        WHERE jobs.seq = ANY (seqs)
            AND jobs.claimed_in = pages[place]
            AND jobs.lane = lanes[place];
        IF soonest IS NULL THEN
            -- None of them runs, and if it is there still, somebody has moved its jobs by hand.
            DELETE FROM holdfast.leases WHERE page = pages[place] AND lane = lanes[place];
        ELSE
            UPDATE holdfast.leases SET expires_at = soonest
            WHERE page = pages[place] AND lane = lanes[place];
        END IF;
    END LOOP;
    RETURN QUERY SELECT * FROM unnest(lost_ids, targets);
END
$$;

CREATE FUNCTION holdfast.expire_deadlines(
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
        WHERE expires_at < t
        ORDER BY expires_at
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ) AS late;
END
$$;

-- The jobs of one kind and status that finished first, locked.
CREATE FUNCTION holdfast.oldest_finished(p_kind text, p_status text, p_limit integer)
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
            AND (jobs.error_code IS NULL) = (p_status = 'cancelled')
            AND jobs.ended_badly_at IS NOT NULL
        ORDER BY jobs.ended_badly_at, jobs.seq
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED;
    END IF;
END
$$;

-- Delete finished jobs of one kind and status, oldest first, with all their history: those that
-- finished `p_max_age` seconds ago, and all but the newest `p_max_count`. A page of history goes with
-- the last of its jobs. One process at a time: two that count before either deletes would delete
-- twice as many, and each would leave the pages that they share to the other.
CREATE FUNCTION holdfast.delete_finished(
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
    touched bigint[];
    named text[];
    excess bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('holdfast retention', 0));
    SELECT sum(counted.n) - p_max_count INTO excess
    FROM holdfast.lanes
    CROSS JOIN LATERAL (
        SELECT count AS n FROM holdfast.counters
        WHERE family = 'lane' AND a = lanes.id::text AND b = p_status
        UNION ALL
        SELECT delta FROM holdfast.counter_deltas
        WHERE family = 'lane' AND a = lanes.id::text AND b = p_status
    ) AS counted
    WHERE lanes.kind = p_kind;
    SELECT array_agg(seq) INTO going
    FROM (
        SELECT seq, finished_at, row_number() OVER (ORDER BY finished_at, seq) AS place
        FROM holdfast.oldest_finished(p_kind, p_status, p_limit)
    ) AS oldest
    WHERE place <= excess OR finished_at <= t - p_max_age;
    IF going IS NULL THEN
        RETURN;
    END IF;
    DELETE FROM holdfast.late_results WHERE late_results.job = ANY (going);
    WITH RECURSIVE pages (sequence) AS (
        SELECT jobs.last_event FROM holdfast.jobs WHERE jobs.seq = ANY (going)
        UNION
        SELECT line.previous
        FROM pages
        JOIN holdfast.history ON history.sequence = pages.sequence
        CROSS JOIN LATERAL unnest(history.jobs, history.previous) AS line (job, previous)
        WHERE line.job = ANY (going) AND line.previous IS NOT NULL
    )
    SELECT array_agg(pages.sequence) INTO touched FROM pages;
    SELECT array_agg(DISTINCT left(jobs.id, 22)) INTO named
    FROM holdfast.jobs
    WHERE jobs.seq = ANY (going) AND length(jobs.id) = 32;
    RETURN QUERY
    WITH gone AS (
        DELETE FROM holdfast.jobs WHERE jobs.seq = ANY (going)
        RETURNING jobs.*
    ), counted AS (
        INSERT INTO holdfast.counter_deltas (delta, family, a, b, c)
        SELECT -count(*), 'lane', lane::text, p_status, '' FROM gone GROUP BY lane
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
    SELECT gone.id, gone.owner, gone.meta, gone.result
    FROM gone
    ORDER BY gone.finished_at, gone.seq;
    DELETE FROM holdfast.stems
    WHERE stems.stem = ANY (named)
        AND NOT EXISTS (
            SELECT FROM holdfast.jobs
            WHERE jobs.seq BETWEEN stems.job AND stems.job + 9999
                AND starts_with(jobs.id, stems.stem)
        );
    DELETE FROM holdfast.history
    WHERE history.sequence = ANY (touched)
        AND NOT EXISTS (
            SELECT FROM unnest(history.jobs) AS line (job)
            JOIN holdfast.jobs ON jobs.seq = line.job
        );
    DELETE FROM holdfast.completed
    WHERE completed.kind = p_kind
        AND completed.page = ANY (touched)
        AND NOT EXISTS (
            SELECT FROM holdfast.events
            JOIN holdfast.jobs ON jobs.seq = events.job AND jobs.kind = p_kind
            WHERE events.page = completed.page
        );
END
$$;

-- Fold the deltas into the counters; one process at a time, the others leave it to that one.
CREATE FUNCTION holdfast.fold_counters() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock((18502::bigint << 48) | ((1::bigint << 48) - 1)) THEN
        RETURN;
    END IF;
    WITH gone AS (
        DELETE FROM holdfast.counter_deltas RETURNING delta, family, a, b, c
    )
    INSERT INTO holdfast.counters AS kept (family, a, b, c, count)
    SELECT family, a, b, c, sum(delta) FROM gone GROUP BY family, a, b, c
    ON CONFLICT (family, a, b, c) DO UPDATE SET count = kept.count + excluded.count;
    DELETE FROM holdfast.counters WHERE count = 0;
END
$$;

-- The highest sequence below which every event is either there or can never be. The order of the
-- three steps matters: whoever took a number up to the bound had announced itself before it was
-- read, so it is either still among the locks, or has ended and is seen by the next statement.
CREATE FUNCTION holdfast.settled_sequence() RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    taken bigint;
    announced bigint;
BEGIN
    SELECT CASE WHEN is_called THEN last_value ELSE 0 END INTO taken FROM holdfast.event_sequence;
    SELECT 10000 * min(((classid::bigint & 65535) << 32) | objid::bigint) INTO announced
    FROM pg_locks
    WHERE locktype = 'advisory'
        AND mode = 'ShareLock'
        AND objsubid = 1
        AND classid::bigint >> 16 = 18502
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
    RETURN least(taken, announced);
END
$$;

-- The events after `p_sequence` that may be shown. Each line of a page comes after those of the pages
-- before it, which the database does not know: so it is told to sort by both.
CREATE FUNCTION holdfast.changes_since(p_sequence bigint, p_owner text, p_limit integer)
RETURNS TABLE (
    sequence bigint, id text, kind text, owner text, name text, at double precision,
    attempt integer, duration double precision, error_code text, meta text
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    settled bigint := holdfast.settled_sequence();
BEGIN
    RETURN QUERY
    SELECT
        events.sequence, jobs.id, jobs.kind, jobs.owner, events.name, events.at,
        events.attempt, events.duration, events.error_code, events.meta
    FROM holdfast.events
    JOIN holdfast.jobs ON jobs.seq = events.job
    WHERE events.page > p_sequence
        AND events.page <= settled
        AND events.sequence > p_sequence
        AND (p_owner IS NULL OR jobs.owner = p_owner)
    ORDER BY events.page, events.place
    LIMIT p_limit;
END
$$;
