-- Lanes: which have ready jobs, and whether these may be claimed.

-- All lanes with ready jobs, by a loose index scan: its cost depends on the number of lanes, not of
-- jobs. It runs backwards, because the entries at the front of a lane may be of claimed jobs that are
-- not vacuumed yet.
CREATE OR REPLACE FUNCTION holdfast.ready_lane_ids() RETURNS SETOF integer
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE lane_list (lane) AS (
        (
            SELECT jobs.lane
            FROM holdfast.jobs
            WHERE jobs.ready
            ORDER BY
                jobs.lane DESC, jobs.priority, coalesce(jobs.owner, '') COLLATE "C" DESC,
                jobs.ready_at DESC, jobs.seq DESC
            LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT jobs.lane
            FROM holdfast.jobs
            WHERE jobs.ready AND jobs.lane < lane_list.lane
            ORDER BY
                jobs.lane DESC, jobs.priority, coalesce(jobs.owner, '') COLLATE "C" DESC,
                jobs.ready_at DESC, jobs.seq DESC
            LIMIT 1
        )
        FROM lane_list
        WHERE lane_list.lane IS NOT NULL
    )
    SELECT lane FROM lane_list WHERE lane IS NOT NULL
$$;

-- Lanes that are not paused. A lane is held until `held_until`, NULL if it is not held. `needs_check`:
-- it is not held, but a limit or a breaker decides how many of its jobs may start.
CREATE OR REPLACE FUNCTION holdfast.lane_states(p_lanes integer[], t double precision)
RETURNS TABLE (
    lane integer, queue text, downstream text, kind text, generation bigint,
    held_until double precision, needs_check boolean
)
LANGUAGE sql STABLE AS $$
    SELECT
        lanes.id, lanes.queue, lanes.downstream, lanes.kind, downstreams.generation,
        CASE WHEN downstreams.held_until > t THEN downstreams.held_until END,
        coalesce(
            (downstreams.held_until > t) IS NOT TRUE AND (
                downstreams.state <> 'CLOSED' OR downstreams.needs_check OR downstreams.ramp_until > t
            ),
            false
        )
    FROM unnest(p_lanes) AS given (lane)
    JOIN holdfast.lanes ON lanes.id = given.lane
    LEFT JOIN holdfast.downstreams ON downstreams.name = lanes.downstream
    -- As arrays, which are read once and not for each lane.
    WHERE lanes.queue <> ALL (ARRAY(SELECT name FROM holdfast.pauses WHERE scope = 'queue'))
        AND lanes.kind <> ALL (ARRAY(SELECT name FROM holdfast.pauses WHERE scope = 'kind'))
$$;

-- The lanes of some queues and kinds with ready jobs.
CREATE OR REPLACE FUNCTION holdfast.ready_lanes(p_queues text[], p_kinds text[], t double precision)
RETURNS TABLE (
    lane integer, queue text, downstream text, kind text, generation bigint,
    held_until double precision, needs_check boolean
)
LANGUAGE sql STABLE AS $$
    SELECT *
    FROM holdfast.lane_states(ARRAY(SELECT holdfast.ready_lane_ids()), t) AS states
    WHERE states.queue = ANY (p_queues) AND states.kind = ANY (p_kinds)
$$;

-- The same, of lanes that a worker remembers: an id may belong to another lane by now.
CREATE OR REPLACE FUNCTION holdfast.remembered_lanes(
    p_lanes integer[], p_queues text[], p_kinds text[], t double precision
) RETURNS TABLE (
    lane integer, queue text, downstream text, kind text, generation bigint,
    held_until double precision, needs_check boolean
)
LANGUAGE sql STABLE AS $$
    SELECT states.*
    FROM holdfast.lane_states(p_lanes, t) AS states
    WHERE states.queue = ANY (p_queues)
        AND states.kind = ANY (p_kinds)
        -- From the back, see holdfast.ready_lane_ids.
        AND (
            SELECT true
            FROM holdfast.jobs
            WHERE jobs.ready AND jobs.lane = states.lane
            ORDER BY
                jobs.priority, coalesce(jobs.owner, '') COLLATE "C" DESC, jobs.ready_at DESC,
                jobs.seq DESC
            LIMIT 1
        )
$$;

-- The lanes of a request with ready jobs that are not held, numbered by families, beginning after the
-- lane served last; when the first held one may be tried again; and how many seconds this took.
CREATE OR REPLACE FUNCTION holdfast.scan_lanes(
    p_request holdfast.claim_request, t double precision,
    OUT lanes integer[], OUT families integer[], OUT cools_at double precision,
    OUT seconds double precision
)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    began timestamptz := clock_timestamp();
BEGIN
    WITH waiting AS MATERIALIZED (
        SELECT * FROM holdfast.ready_lanes(p_request.queues, p_request.kinds, t)
    ), grouped AS (
        SELECT lane, min(lane) OVER (PARTITION BY queue, downstream) AS first
        FROM waiting
        WHERE held_until IS NULL
    ), numbered AS (
        SELECT lane, dense_rank() OVER (ORDER BY first <= p_request.after, first)::integer AS family
        FROM grouped
    )
    SELECT
        array_agg(lane ORDER BY family, lane), array_agg(family ORDER BY family, lane),
        (SELECT min(held_until) FROM waiting WHERE held_until < 'infinity')
    INTO lanes, families, cools_at
    FROM numbered;
    seconds := extract(epoch FROM clock_timestamp() - began);
END
$$;

-- The line of a tick's answer that names some lanes.
CREATE OR REPLACE FUNCTION holdfast.lane_names(p_lanes integer[]) RETURNS holdfast.tick_answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    line holdfast.tick_answer;
BEGIN
    line.what := 'lanes';
    SELECT array_agg(id), array_agg(queue), array_agg(downstream), array_agg(kind)
    INTO line.lanes, line.queues, line.downstreams, line.kinds
    FROM holdfast.lanes
    WHERE id = ANY (p_lanes);
    RETURN line;
END
$$;

-- For workers of the release before: `stance` is held, check (see `needs_check`) or free.
CREATE OR REPLACE FUNCTION holdfast.waiting_lanes(p_queues text[], p_kinds text[], t double precision)
RETURNS TABLE (
    lane integer, queue text, downstream text, kind text, generation bigint,
    open_until double precision, stance text
)
LANGUAGE sql STABLE AS $$
    SELECT
        lane, queue, downstream, kind, generation, held_until,
        CASE WHEN held_until IS NOT NULL THEN 'held' WHEN needs_check THEN 'check' ELSE 'free' END
    FROM holdfast.ready_lanes(p_queues, p_kinds, t)
$$;
