-- The second half of a worker's tick: promote jobs that are due, find the lanes with ready jobs,
-- claim from them in turn.

-- Let jobs that are due become ready; return when the next one is.
CREATE OR REPLACE FUNCTION holdfast.promote(t double precision) RETURNS double precision
LANGUAGE plpgsql AS $$
DECLARE
    due double precision;
BEGIN
    SELECT min(ready_at) INTO due FROM holdfast.jobs WHERE status = 'queued' AND NOT ready;
    IF due IS NULL OR due > t THEN
        RETURN due;
    END IF;
    WITH picked AS MATERIALIZED (
        SELECT seq
        FROM holdfast.jobs
        WHERE status = 'queued' AND NOT ready AND ready_at <= t
        ORDER BY ready_at
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    ), moved AS (
        UPDATE holdfast.jobs SET ready = true
        FROM picked
        WHERE jobs.seq = picked.seq
        RETURNING lane
    )
    INSERT INTO holdfast.counter_deltas (delta, family, a, b)
    SELECT place.sign * n, 'lane', lane, place.name
    FROM (SELECT lane, count(*) AS n FROM moved GROUP BY lane) AS by_lane
    CROSS JOIN (VALUES (-1, 'scheduled'), (1, 'ready')) AS place (sign, name);
    RETURN (SELECT min(ready_at) FROM holdfast.jobs WHERE status = 'queued' AND NOT ready);
END
$$;

-- The lanes of some queues and kinds with ready jobs, by a loose index scan: its cost depends on the
-- number of lanes, not of jobs. It runs backwards, because the entries at the front of a lane may be
-- of claimed jobs that are not vacuumed yet.
-- stance: free, may be claimed from at once; held, not now; check, a limit or a breaker decides.
CREATE OR REPLACE FUNCTION holdfast.waiting_lanes(p_queues text[], p_kinds text[], t double precision)
RETURNS TABLE (
    lane integer, queue text, downstream text, kind text, generation bigint,
    open_until double precision, stance text
)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE lane_list (lane) AS (
        (
            SELECT jobs.lane
            FROM holdfast.jobs
            WHERE jobs.ready
            ORDER BY jobs.lane DESC, jobs.priority, jobs.ready_at DESC, jobs.seq DESC
            LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT jobs.lane
            FROM holdfast.jobs
            WHERE jobs.ready AND jobs.lane < lane_list.lane
            ORDER BY jobs.lane DESC, jobs.priority, jobs.ready_at DESC, jobs.seq DESC
            LIMIT 1
        )
        FROM lane_list
        WHERE lane_list.lane IS NOT NULL
    )
    SELECT
        lanes.id, lanes.queue, lanes.downstream, lanes.kind, downstreams.generation,
        downstreams.open_until,
        CASE
            WHEN downstreams.name IS NULL THEN 'free'
            WHEN downstreams.state = 'OPEN' AND (
                downstreams.open_until IS NULL
                OR (downstreams.holds AND downstreams.open_until > t)
            ) THEN 'held'
            WHEN downstreams.state = 'CLOSED'
                AND NOT downstreams.needs_check
                AND coalesce(downstreams.ramp_until, 0) <= t THEN 'free'
            ELSE 'check'
        END
    FROM lane_list
    JOIN holdfast.lanes ON lanes.id = lane_list.lane
    LEFT JOIN holdfast.downstreams ON downstreams.name = lanes.downstream
    WHERE lanes.queue = ANY (p_queues) AND lanes.kind = ANY (p_kinds)
$$;

-- Share `p_limit` jobs among lanes: an equal share for every (queue, downstream), within it by
-- priority and time over all its kinds, beginning after the lane `p_after` that was served last.
-- Reads no more jobs of a lane than its share; call it again for what some lanes leave over.
CREATE OR REPLACE FUNCTION holdfast.share_out(p_lanes integer[], p_limit integer, p_after integer)
RETURNS TABLE (lane integer, quota integer)
LANGUAGE sql STABLE AS $$
    WITH wanted AS MATERIALIZED (
        SELECT
            lanes.id,
            dense_rank() OVER (ORDER BY lanes.queue, lanes.downstream) AS family
        FROM unnest(p_lanes) AS given (id)
        JOIN holdfast.lanes ON lanes.id = given.id
    ), share AS MATERIALIZED (
        SELECT greatest(1, p_limit / greatest(1, max(family)::integer)) AS size FROM wanted
    ), ranked AS (
        SELECT wanted.id, row_number() OVER (
            PARTITION BY wanted.family ORDER BY head.priority DESC, head.ready_at, head.seq
        ) AS place
        FROM wanted
        CROSS JOIN LATERAL (
            SELECT jobs.priority, jobs.ready_at, jobs.seq
            FROM holdfast.jobs
            WHERE jobs.ready AND jobs.lane = wanted.id
            ORDER BY jobs.priority DESC, jobs.ready_at, jobs.seq
            LIMIT (SELECT size FROM share)
        ) AS head
    ), chosen AS (
        SELECT ranked.id
        FROM ranked
        WHERE ranked.place <= (SELECT size FROM share)
        ORDER BY ranked.place, ranked.id <= p_after, ranked.id
        LIMIT p_limit
    )
    SELECT chosen.id, count(*)::integer FROM chosen GROUP BY chosen.id
$$;

-- Claim up to `quota` ready jobs of each lane, with permits of `generation`; at most 10000 in all, for
-- they share a page of history.
CREATE OR REPLACE FUNCTION holdfast.take(
    p_worker text,
    p_lanes integer[],
    p_quotas integer[],
    p_generations bigint[],
    p_lease double precision,
    t double precision
) RETURNS holdfast.tick_line
LANGUAGE plpgsql AS $$
DECLARE
    line holdfast.tick_line;
    page_number bigint := holdfast.next_page();
BEGIN
    WITH started AS (
        UPDATE holdfast.jobs SET
            status = 'processing', ready = false, attempt_count = attempt_count + 1,
            token = token + 1, worker_id = p_worker, lease_expires_at = t + p_lease,
            started_at = coalesce(started_at, t), last_attempt_at = t,
            permit_generation = p_generations[array_position(p_lanes, lane)],
            previous_event = last_event, last_event = page_number
        WHERE ctid = ANY (ARRAY(
            SELECT job.place
            FROM unnest(p_lanes, p_quotas) AS wanted (lane, quota)
            CROSS JOIN LATERAL (
                SELECT jobs.ctid AS place
                FROM holdfast.jobs
                WHERE jobs.ready
                    AND jobs.lane = wanted.lane
                    AND (t > jobs.deadline_at) IS NOT TRUE
                ORDER BY jobs.priority DESC, jobs.ready_at, jobs.seq
                LIMIT wanted.quota
                FOR UPDATE SKIP LOCKED
            ) AS job
        ))
        RETURNING
            seq, token, lane, attempt_count, max_attempts, created_at, deadline_at,
            permit_generation, priority, ready_at, last_event, previous_event, id, owner, meta,
            arguments
    ), page AS (
        SELECT
            min(last_event) AS sequence, array_agg(seq) AS jobs,
            array_agg(previous_event) AS previous, array_agg(attempt_count) AS attempts,
            array_agg(id) AS ids, array_agg(token) AS tokens, array_agg(lane) AS lanes,
            array_agg(max_attempts) AS max_attempts, array_agg(created_at) AS created_ats,
            CASE WHEN count(deadline_at) > 0 THEN array_agg(deadline_at) END AS deadlines,
            CASE WHEN count(permit_generation) > 0
                THEN array_agg(permit_generation)
            END AS generations,
            CASE WHEN count(owner) > 0 THEN array_agg(owner) END AS owners,
            CASE WHEN count(meta) > 0 THEN array_agg(meta) END AS metas,
            array_agg(arguments) AS arguments
        FROM (SELECT * FROM started ORDER BY priority DESC, ready_at, seq) AS started
    ), told AS (
        INSERT INTO holdfast.history (sequence, at, name, jobs, previous, attempts)
        SELECT sequence, t, 'processing', jobs, previous, attempts
        FROM page
        WHERE sequence IS NOT NULL
    ), alike AS (
        SELECT lane, count(*) AS n FROM started GROUP BY lane
    ), counted AS (
        INSERT INTO holdfast.counter_deltas (delta, family, a, b)
        SELECT sign * n, 'lane', lane, place
        FROM alike
        CROSS JOIN (VALUES (-1, 'ready'), (1, 'processing')) AS changes (sign, place)
    )
    SELECT
        'claims', NULL, t, NULL, jobs, ids, tokens, lanes, attempts, max_attempts, created_ats,
        deadlines, generations, owners, metas, arguments
    INTO line
    FROM page;
    RETURN line;
END
$$;

-- Claim jobs, where no lane with ready jobs must be checked first.
CREATE OR REPLACE FUNCTION holdfast.claim(
    p_worker text, p_request holdfast.request, p_timeout text[], t double precision
) RETURNS SETOF holdfast.tick_line
LANGUAGE plpgsql AS $$
DECLARE
    line holdfast.tick_line;
    free integer[];
    generations bigint[];
    lanes integer[];
    quotas integer[];
    generations_taken bigint[];
    remaining integer := p_request.most;
    needs_check boolean;
    cools_at double precision;
BEGIN
    line.what := 'wake';
    line.at := holdfast.promote(t);
    SELECT
        array_agg(lane ORDER BY lane) FILTER (WHERE stance = 'free'),
        array_agg(generation ORDER BY lane) FILTER (WHERE stance = 'free'),
        bool_or(stance = 'check' OR (stance = 'free' AND kind = ANY (p_request.limited))),
        min(open_until) FILTER (WHERE stance = 'held')
    INTO free, generations, needs_check, cools_at
    FROM holdfast.waiting_lanes(p_request.queues, p_request.kinds, t);
    line.at := least(line.at, cools_at);
    IF line.at IS NOT NULL THEN
        RETURN NEXT line;
    END IF;
    IF remaining <= 0 THEN
        RETURN;
    END IF;
    IF needs_check THEN
        line := NULL;
        line.what := 'check';
        RETURN NEXT line;
        RETURN;
    END IF;
    IF free IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT * FROM holdfast.time_out_ready(free, p_timeout, t);
    lanes := free;
    generations_taken := generations;
    WHILE remaining > 0 LOOP
        quotas := ARRAY[least(remaining, 10000)];
        IF cardinality(free) > 1 THEN
            SELECT
                array_agg(shares.lane), array_agg(shares.quota),
                array_agg(generations[array_position(free, shares.lane)])
            INTO lanes, quotas, generations_taken
            FROM holdfast.share_out(free, quotas[1], p_request.after) AS shares;
            EXIT WHEN lanes IS NULL;
        END IF;
        line := holdfast.take(
            p_worker, lanes, quotas, generations_taken, p_request.lease, t
        );
        EXIT WHEN line.seqs IS NULL;
        RETURN NEXT line;
        remaining := remaining - cardinality(line.seqs);
        EXIT WHEN cardinality(free) = 1 AND cardinality(line.seqs) < quotas[1];
    END LOOP;
END
$$;
