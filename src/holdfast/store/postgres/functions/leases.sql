-- Leases: extended by heartbeats, rescued when they have run out.

-- Note that jobs run no longer: a column of the claims that they were in, and one of their lanes.
-- Called once in a transaction, and after that it waits for no job: so nobody waits in a ring.
CREATE OR REPLACE FUNCTION holdfast.leave_leases(p_pages bigint[], p_lanes integer[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE holdfast.leases SET running = running - ended.n
    FROM (
        SELECT page, lane, count(*) AS n
        FROM unnest(p_pages, p_lanes) AS given (page, lane)
        GROUP BY page, lane
        ORDER BY page, lane
    ) AS ended
    WHERE leases.page = ended.page AND leases.lane = ended.lane;
    DELETE FROM holdfast.leases WHERE page = ANY (p_pages) AND running = 0;
END
$$;

-- Count the writes of zombies among leases that hold no more: those whose attempt somebody else has
-- ended. One that the worker's own report has just ended is no zombie's.
CREATE OR REPLACE FUNCTION holdfast.count_zombies(p_ids text[], p_tokens bigint[]) RETURNS void
LANGUAGE sql VOLATILE AS $$
    INSERT INTO holdfast.counter_deltas (delta, family, a)
    SELECT count(*), 'total', 'refused_writes'
    FROM unnest(p_ids, p_tokens) AS given (id, token)
    CROSS JOIN LATERAL holdfast.history_of(ARRAY[holdfast.job_of(given.id)]) AS line
    WHERE line.token = given.token AND line.outcome IN ('lease_lost', 'timeout')
    HAVING count(*) > 0
$$;

-- Let leases last longer, and return those that hold still. A job that somebody else is just writing
-- is not waited for: its lease is extended by the next beat.
CREATE OR REPLACE FUNCTION holdfast.extend(
    p_ids text[], p_tokens bigint[], p_lease double precision, p_now double precision
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
        SELECT given.id, jobs.seq, jobs.token, jobs.cancel_requested
        FROM unnest(p_ids, p_tokens, seqs) AS given (id, token, seq)
        JOIN holdfast.jobs ON jobs.seq = given.seq
        WHERE jobs.token = given.token AND jobs.status = 'processing'
    ), locked AS MATERIALIZED (
        SELECT jobs.seq
        FROM held
        JOIN holdfast.jobs ON jobs.seq = held.seq
        WHERE jobs.token = held.token AND jobs.status = 'processing'
        FOR UPDATE OF jobs SKIP LOCKED
    ), extended AS (
        UPDATE holdfast.jobs SET lease_expires_at = t + p_lease
        FROM locked
        WHERE jobs.seq = locked.seq
        RETURNING jobs.claimed_in
    ), shortened AS (
        UPDATE holdfast.leases SET expires_at = t + p_lease
        FROM (SELECT DISTINCT claimed_in FROM extended) AS claims
        WHERE leases.page = claims.claimed_in AND leases.expires_at > t + p_lease
    )
    SELECT held.id, held.token, held.cancel_requested FROM held;
    GET DIAGNOSTICS holding = ROW_COUNT;
    IF holding < cardinality(p_ids) THEN
        PERFORM holdfast.count_zombies(p_ids, p_tokens);
    END IF;
END
$$;

-- Take back jobs whose leases have run out. `p_error` is code, message and group. A claim is looked at
-- when the first of its leases may have run out; where a heartbeat has let them last longer, or
-- there are more than `p_limit`, it is looked at again later.
CREATE OR REPLACE FUNCTION holdfast.rescue(p_limit integer, p_error text[], p_now double precision)
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
