-- Leases: extended by heartbeats, rescued when they have run out.

-- Count refused writes: those under leases whose attempt was ended by a rescue or a deadline. A lease
-- that the worker's own report has just ended is not counted.
CREATE OR REPLACE FUNCTION holdfast.count_refused_writes(p_ids text[], p_tokens bigint[]) RETURNS void
LANGUAGE sql VOLATILE AS $$
    INSERT INTO holdfast.counter_deltas (delta, family, a)
    SELECT count(*), 'total', 'refused_writes'
    FROM unnest(p_ids, p_tokens) AS given (id, token)
    CROSS JOIN LATERAL holdfast.history_of(ARRAY[holdfast.job_of(given.id)]) AS line
    WHERE line.token = given.token AND line.outcome IN ('lease_lost', 'timeout')
    HAVING count(*) > 0
$$;

-- Extend leases, and return those that are still valid. A job that is locked at this moment is
-- skipped: its lease is extended by the next heartbeat. After a failover that lost a claim, another
-- worker may have the same job under the same token, so the workers are compared too.
CREATE OR REPLACE FUNCTION holdfast.extend(
    p_ids text[],
    p_tokens bigint[],
    p_workers text[],
    p_lease double precision,
    p_now double precision
) RETURNS TABLE (id text, token bigint, cancel_requested boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    t double precision := holdfast.time_of(p_now);
    seqs bigint[] := ARRAY(SELECT holdfast.job_of(given.id) FROM unnest(p_ids) AS given (id));
    holding bigint;
BEGIN
    RETURN QUERY
    WITH held AS MATERIALIZED (
        SELECT given.id, jobs.seq, jobs.token, jobs.worker_id, jobs.cancel_requested
        FROM unnest(p_ids, p_tokens, p_workers, seqs) AS given (id, token, worker_id, seq)
        JOIN holdfast.jobs ON jobs.seq = given.seq
        WHERE jobs.token = given.token
            AND (jobs.worker_id <> given.worker_id) IS NOT TRUE
            AND jobs.status = 'processing'
    ), locked AS MATERIALIZED (
        SELECT jobs.seq
        FROM held
        JOIN holdfast.jobs ON jobs.seq = held.seq
        WHERE jobs.token = held.token
            -- Not by =, see finish.sql.
            AND jobs.worker_id IS NOT DISTINCT FROM held.worker_id
            AND jobs.status = 'processing'
        FOR UPDATE OF jobs SKIP LOCKED
    ), extended AS (
        UPDATE holdfast.jobs SET lease_expires_at = t + p_lease
        FROM locked
        WHERE jobs.seq = locked.seq
    )
    SELECT held.id, held.token, held.cancel_requested FROM held;
    GET DIAGNOSTICS holding = ROW_COUNT;
    IF holding < cardinality(p_ids) THEN
        PERFORM holdfast.count_refused_writes(p_ids, p_tokens);
    END IF;
END
$$;

-- The same for workers of the release before, which do not say who they are.
CREATE OR REPLACE FUNCTION holdfast.extend(
    p_ids text[], p_tokens bigint[], p_lease double precision, p_now double precision
) RETURNS TABLE (id text, token bigint, cancel_requested boolean)
LANGUAGE sql VOLATILE AS $$
    SELECT * FROM holdfast.extend(p_ids, p_tokens, NULL, p_lease, p_now)
$$;

-- Take back jobs whose leases have run out or whose workers are dead, except those past their deadline,
-- which expire_deadlines fails. `p_error` is code, message and group.
CREATE OR REPLACE FUNCTION holdfast.rescue(
    p_limit integer, p_error text[], p_now double precision
) RETURNS TABLE (id text, target text)
LANGUAGE plpgsql AS $$
DECLARE
    t double precision := holdfast.time_of(p_now);
    ids text[];
    targets text[];
    moves holdfast.move[];
    dead text[] := ARRAY(
        SELECT workers.id FROM holdfast.workers WHERE holdfast.is_dead(workers.id, t)
    );
BEGIN
    WITH lost AS MATERIALIZED (
        SELECT
            jobs.seq, jobs.id, jobs.kind, jobs.lane, jobs.attempt_count,
            CASE
                WHEN jobs.cancel_requested THEN 'cancelled'
                WHEN jobs.attempt_count >= jobs.max_attempts THEN 'failed'
                ELSE 'queued'
            END AS target
        FROM holdfast.jobs
        WHERE jobs.worker_id IS NOT NULL
            AND (jobs.lease_expires_at <= t OR jobs.worker_id = ANY (dead))
            AND (jobs.deadline_at IS NULL OR jobs.deadline_at >= t)
        -- The order of the index jobs_running. By seq alone PostgreSQL would read all jobs where it has
        -- no statistics yet.
        ORDER BY jobs.lane, jobs.seq
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    )
    SELECT array_agg(lost.id), array_agg(lost.target), array_agg(ROW(
        lost.seq, lost.target,
        CASE lost.target WHEN 'queued' THEN 'lease_lost' ELSE lost.target END,
        'lease_lost', p_error[1], p_error[2], p_error[3],
        CASE WHEN lost.target = 'failed' AND holdfast.has_dead_letters(lost.kind) THEN 'lease_lost' END,
        CASE lost.target WHEN 'queued' THEN t + lost.delay END, NULL, false, NULL, NULL
    )::holdfast.move)
    INTO ids, targets, moves
    FROM (
        -- As holdfast.jobs.report_rules.rescue_delay has it.
        SELECT
            lost.*,
            CASE WHEN lost.attempt_count < 2 THEN 0 ELSE 0.2 * ((row_number() OVER (
                PARTITION BY lost.target, lost.attempt_count < 2 ORDER BY lost.seq
            ) - 1) % 50) END AS delay
        FROM lost
    ) AS lost;
    IF moves IS NOT NULL THEN
        PERFORM holdfast.move(moves, t);
        PERFORM holdfast.count_total('rescued', cardinality(moves));
    END IF;
    IF dead <> '{}' THEN
        PERFORM holdfast.forget_workers(dead);
    END IF;
    PERFORM holdfast.forget_leaderships(t);
    RETURN QUERY SELECT * FROM unnest(ids, targets);
END
$$;
