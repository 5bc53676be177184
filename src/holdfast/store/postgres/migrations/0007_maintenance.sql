-- Chores, each on a bounded number of jobs, each safe to run twice at once; and reading history.

-- Take back jobs whose leases have run out. Leaps from lane to lane as holdfast.waiting_lanes does,
-- so that it matters how many lanes run jobs and not how many jobs run. `p_error` is code, message and group.
CREATE FUNCTION holdfast.rescue(p_limit integer, p_error text[], p_now double precision)
RETURNS TABLE (id text, target text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    t double precision := holdfast.time_of(p_now);
BEGIN
    RETURN QUERY
    WITH RECURSIVE leap (lane) AS (
        (
            SELECT jobs.lane FROM holdfast.jobs
            WHERE jobs.lease_expires_at IS NOT NULL
            ORDER BY jobs.lane DESC, jobs.lease_expires_at DESC
            LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT jobs.lane FROM holdfast.jobs
            WHERE jobs.lease_expires_at IS NOT NULL AND jobs.lane < leap.lane
            ORDER BY jobs.lane DESC, jobs.lease_expires_at DESC
            LIMIT 1
        )
        FROM leap
        WHERE leap.lane IS NOT NULL
    ), lost AS MATERIALIZED (
        SELECT job.*
        FROM leap
        CROSS JOIN LATERAL (
            SELECT
                jobs.seq, jobs.token, jobs.worker_id, jobs.last_attempt_at,
                CASE
                    WHEN jobs.cancel_requested THEN 'cancelled'
                    WHEN jobs.attempt_count >= jobs.max_attempts THEN 'failed'
                    ELSE 'queued'
                END AS target
            FROM holdfast.jobs
            WHERE jobs.lane = leap.lane AND jobs.lease_expires_at <= t
            ORDER BY jobs.lease_expires_at
            LIMIT p_limit
            FOR UPDATE SKIP LOCKED
        ) AS job
        LIMIT p_limit
    ), moved AS (
        UPDATE holdfast.jobs SET
            status = target,
            ready = target = 'queued',
            ready_at = CASE WHEN target = 'queued' THEN t ELSE ready_at END,
            queued_at = CASE WHEN target = 'queued' THEN t ELSE queued_at END,
            finished_at = CASE WHEN target <> 'queued' THEN t END,
            progress = CASE WHEN target <> 'queued' THEN progress END,
            progress_note = CASE WHEN target <> 'queued' THEN progress_note END,
            error_code = CASE WHEN target = 'failed' THEN p_error[1] END,
            error_message = CASE WHEN target = 'failed' THEN p_error[2] END,
            error_group = CASE WHEN target = 'failed' THEN p_error[3] END,
            dead_letter = CASE WHEN target = 'failed' THEN 'lease_lost' END,
            worker_id = NULL, lease_expires_at = NULL, permit_generation = NULL,
            permit_trial = NULL, cancel_requested = false,
            previous_event = last_event, last_event = nextval('holdfast.event_sequence')
        FROM lost
        WHERE jobs.seq = lost.seq
        RETURNING
            lost.*, jobs.id, jobs.lane, jobs.kind, jobs.attempt_count, jobs.last_event, jobs.previous_event
    ), told AS (
        INSERT INTO holdfast.events (
            sequence, previous, job, at, started_at, duration, token, attempt, name, outcome,
            worker_id, error_code, error_message
        )
        SELECT
            last_event, previous_event, seq, t, last_attempt_at, greatest(0, t - last_attempt_at),
            token, attempt_count,
            CASE target WHEN 'queued' THEN 'lease_lost' ELSE target END,
            'lease_lost', worker_id, p_error[1], p_error[2]
        FROM moved
    ), counted AS (
        INSERT INTO holdfast.counter_deltas (delta, family, a, b, c)
        SELECT -count(*), 'lane', lane::text, 'processing', '' FROM moved GROUP BY lane
        UNION ALL
        SELECT count(*), 'lane', lane::text, holdfast.place_of(target, target = 'queued'), ''
        FROM moved
        GROUP BY lane, target
        UNION ALL
        SELECT count(*), 'outcome', kind, target, attempt_count::text
        FROM moved
        WHERE target <> 'queued'
        GROUP BY kind, target, attempt_count
        UNION ALL
        SELECT count(*), 'dead', kind, p_error[1], p_error[3]
        FROM moved
        WHERE target = 'failed'
        GROUP BY kind
        UNION ALL
        SELECT count(*), 'total', 'rescued', '', '' FROM moved HAVING count(*) > 0
    )
    SELECT moved.id, moved.target FROM moved;
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
        WHERE deadline_at < t AND finished_at IS NULL
        ORDER BY deadline_at
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ) AS late;
END
$$;

-- Delete finished jobs of one kind and status, oldest first, with all their history: those that
-- finished `p_max_age` seconds ago, and all but the newest `p_max_count`. One process at a time, for
-- two that count before either deletes would delete twice as many.
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
    excess bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(
        hashtextextended('holdfast retention ' || p_status || ' ' || p_kind, 0)
    );
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
        FROM (
            SELECT jobs.seq, jobs.finished_at
            FROM holdfast.jobs
            WHERE jobs.kind = p_kind AND jobs.status = p_status AND jobs.finished_at IS NOT NULL
            ORDER BY jobs.finished_at, jobs.seq
            LIMIT p_limit
            FOR UPDATE SKIP LOCKED
        ) AS oldest
    ) AS oldest
    WHERE place <= excess OR finished_at <= t - p_max_age;
    IF going IS NULL THEN
        RETURN;
    END IF;
    DELETE FROM holdfast.late_results WHERE late_results.job = ANY (going);
    DELETE FROM holdfast.events
    USING holdfast.history(going) AS line
    WHERE events.sequence = line.sequence;
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
        DELETE FROM holdfast.ids USING gone WHERE ids.id = gone.id
    )
    SELECT gone.id, gone.owner, gone.meta, gone.result
    FROM gone
    ORDER BY gone.finished_at, gone.seq;
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
    SELECT min(((classid::bigint & 65535) << 32) | objid::bigint) INTO announced
    FROM pg_locks
    WHERE locktype = 'advisory'
        AND mode = 'ShareLock'
        AND objsubid = 1
        AND classid::bigint >> 16 = 18502
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
    RETURN least(taken, announced);
END
$$;

-- Whether there is an event to be shown after `p_sequence`. Numbers alone say nothing: those that a
-- rollback, a crash or retention took away leave gaps that a reader would look into without end.
CREATE FUNCTION holdfast.has_changes(p_sequence bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    settled bigint := holdfast.settled_sequence();
BEGIN
    RETURN EXISTS (
        SELECT FROM holdfast.events WHERE sequence > p_sequence AND sequence <= settled
    );
END
$$;

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
    WHERE events.sequence > p_sequence
        AND events.sequence <= settled
        AND (p_owner IS NULL OR jobs.owner = p_owner)
    ORDER BY events.sequence
    LIMIT p_limit;
END
$$;
