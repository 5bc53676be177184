-- The second half of a worker's tick: promote jobs that are due, find lanes with ready jobs, claim from
-- them in turn.

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
    SELECT sign * n, 'lane', lane, counter
    FROM (SELECT lane, count(*) AS n FROM moved GROUP BY lane) AS by_lane
    CROSS JOIN (VALUES (-1, 'scheduled'), (1, 'ready')) AS changes (sign, counter);
    RETURN (SELECT min(ready_at) FROM holdfast.jobs WHERE status = 'queued' AND NOT ready);
END
$$;

-- Claim up to `p_limit` jobs from lanes that may be claimed from at once: an equal share from every
-- family, the rest from families with more jobs. Returns one line per page of jobs.
CREATE OR REPLACE FUNCTION holdfast.claim_from(
    p_worker text,
    p_request holdfast.claim_request,
    p_lanes integer[],
    p_families integer[],
    p_generations bigint[],
    p_limit integer,
    t double precision
) RETURNS SETOF holdfast.tick_answer
LANGUAGE plpgsql AS $$
DECLARE
    line holdfast.tick_answer;
    lanes integer[] := p_lanes;
    families integer[] := p_families;
    remaining integer := p_limit;
    share integer;
    strands holdfast.strand[];
    lone holdfast.strand;
    known integer;
    -- How a lane is read: from the job taken last on; from its front; past jobs that others have locked.
    resumes boolean := true;
    -- Which lane of each family then, for they share the family's jobs.
    skips integer := 0;
BEGIN
    WHILE remaining > 0 AND lanes IS NOT NULL LOOP
        SELECT greatest(1, least(10000, remaining) / count(DISTINCT family)) INTO share
        FROM unnest(families) AS given (family);
        strands := NULL;
        IF skips > 0 THEN
            strands := ARRAY(
                SELECT ROW(given.lane, NULL, NULL, share, NULL, NULL)::holdfast.strand
                FROM (
                    SELECT lane, row_number() OVER (PARTITION BY family ORDER BY lane) AS number
                    FROM unnest(lanes, families) AS known (lane, family)
                ) AS given
                WHERE given.number = skips
            );
        ELSIF cardinality(lanes) = 1 THEN
            known := CASE WHEN resumes THEN array_position(p_request.lanes, lanes[1]) END;
            lone := holdfast.lone_strand(
                lanes[1], p_request.priorities[known], p_request.owners[known],
                p_request.ready_ats[known], p_request.seqs[known]
            );
            resumes := lone.seq IS NOT NULL;
            IF lone.lane IS NOT NULL THEN
                lone.quota := share;
                strands := ARRAY[lone];
            END IF;
        END IF;
        IF strands IS NULL THEN
            SELECT array_agg(ROW(plan.*)::holdfast.strand) INTO strands
            FROM (
                SELECT
                    array_agg(given.lane) AS lanes, array_agg(given.family) AS families,
                    array_agg(share) AS most, array_agg(memory.owner) AS owners,
                    array_agg(memory.used) AS used
                FROM unnest(lanes, families) AS given (lane, family)
                LEFT JOIN unnest(p_request.lanes, p_request.owners, p_request.used)
                    AS memory (lane, owner, used) ON memory.lane = given.lane
            ) AS wanted
            CROSS JOIN LATERAL holdfast.plan_claim(
                wanted.lanes, wanted.families, wanted.most, wanted.owners, wanted.used
            ) AS plan;
        END IF;
        EXIT WHEN strands IS NULL OR strands = '{}';
        line := holdfast.take_strands(p_worker, strands, p_lanes, p_generations, p_request.lease, t);
        IF line.seqs IS NOT NULL THEN
            RETURN NEXT line;
            remaining := remaining - cardinality(line.seqs);
            -- The rest comes from the families that gave something.
            SELECT array_agg(ranked.lane), array_agg(ranked.family) INTO lanes, families
            FROM (
                SELECT given.lane, given.family, dense_rank() OVER (ORDER BY given.family) AS rank
                FROM unnest(lanes, families) AS given (lane, family)
                WHERE given.family IN (
                    SELECT gave.family
                    FROM unnest(lanes, families) AS gave (lane, family)
                    WHERE gave.lane IN (SELECT unnest(line.lanes))
                )
            ) AS ranked
            WHERE ranked.rank <= remaining;
        ELSIF resumes THEN
            resumes := false;
        ELSE
            skips := skips + 1;
        END IF;
    END LOOP;
END
$$;

-- The lanes of some queues and kinds with ready jobs that are not held, numbered by families, beginning
-- after the lane `p_after`; and when the first held one may be tried again.
CREATE OR REPLACE FUNCTION holdfast.scan_lanes(
    p_request holdfast.claim_request, t double precision,
    OUT lanes integer[], OUT families integer[], OUT cools_at double precision
)
LANGUAGE sql STABLE AS $$
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
    FROM numbered
$$;

-- Claim jobs: from the lanes of the request, and where they have too few from all lanes with ready
-- jobs. Each step looks at no more families than there are jobs still to be claimed, so a claim's cost
-- depends on what it takes. Stops at lanes that must be checked first; if it has claimed jobs by then,
-- the answer is to ask again at once.
CREATE OR REPLACE FUNCTION holdfast.claim(
    p_worker text, p_request holdfast.claim_request, p_timeout text[], t double precision
) RETURNS SETOF holdfast.tick_answer
LANGUAGE plpgsql AS $$
DECLARE
    line holdfast.tick_answer;
    -- Without families all lanes are to be looked for.
    lanes integer[] := CASE WHEN p_request.families IS NOT NULL THEN p_request.lanes END;
    families integer[] := p_request.families;
    remaining integer := p_request.most;
    looked_at integer := 0;
    scanned boolean := false;
    began timestamptz;
    free integer[];
    free_families integer[];
    generations bigint[];
    served integer[] := '{}';
    needs_check boolean := false;
    wake_at double precision := holdfast.promote(t);
    cools_at double precision;
BEGIN
    LOOP
        IF looked_at >= coalesce(families[cardinality(families)], 0) THEN
            EXIT WHEN scanned;
            scanned := true;
            looked_at := 0;
            began := clock_timestamp();
            SELECT * INTO lanes, families, cools_at FROM holdfast.scan_lanes(p_request, t);
            wake_at := least(wake_at, cools_at);
            line := NULL;
            line.what := 'scanned';
            line.lanes := lanes;
            line.at := extract(epoch FROM clock_timestamp() - began);
            RETURN NEXT line;
        END IF;
        EXIT WHEN lanes IS NULL OR remaining <= 0;
        SELECT
            array_agg(state.lane ORDER BY given.family) FILTER (WHERE state.held_until IS NULL),
            array_agg(given.family ORDER BY given.family) FILTER (WHERE state.held_until IS NULL),
            array_agg(state.generation ORDER BY given.family)
                FILTER (WHERE state.held_until IS NULL),
            coalesce(bool_or(state.needs_check OR (
                state.held_until IS NULL AND state.kind = ANY (p_request.limited)
            )), false),
            least(wake_at, min(state.held_until) FILTER (WHERE state.held_until < 'infinity'))
        INTO free, free_families, generations, needs_check, wake_at
        FROM unnest(lanes, families) AS given (lane, family)
        CROSS JOIN LATERAL holdfast.remembered_lanes(
            ARRAY[given.lane], p_request.queues, p_request.kinds, t
        ) AS state
        WHERE given.family > looked_at AND given.family <= looked_at + remaining;
        EXIT WHEN needs_check;
        looked_at := looked_at + remaining;
        IF free IS NOT NULL THEN
            RETURN QUERY
            SELECT
                late.*,
                NULL::smallint[], NULL::double precision[], NULL::text[], NULL::text[], NULL::text[]
            FROM holdfast.time_out_ready(free, p_timeout, t) AS late;
            FOR line IN
                SELECT * FROM holdfast.claim_from(
                    p_worker, p_request, free, free_families, generations, remaining, t
                )
            LOOP
                RETURN NEXT line;
                remaining := remaining - cardinality(line.seqs);
                served := served || ARRAY(SELECT DISTINCT unnest(line.lanes));
            END LOOP;
        END IF;
        EXIT WHEN remaining <= 0;
    END LOOP;
    line := NULL;
    IF needs_check AND served = '{}' THEN
        line.what := 'check';
        RETURN NEXT line;
    ELSIF needs_check THEN
        wake_at := t;
    END IF;
    IF wake_at IS NOT NULL THEN
        line.what := 'wake';
        line.at := wake_at;
        RETURN NEXT line;
    END IF;
    line := holdfast.lane_names(CASE WHEN scanned THEN served || lanes ELSE served END);
    IF line.lanes IS NOT NULL THEN
        RETURN NEXT line;
    END IF;
    IF NOT scanned AND cardinality(lanes) > 1 THEN
        line := NULL;
        line.what := 'idle';
        SELECT array_agg(given.lane) INTO line.lanes
        FROM unnest(lanes, families) AS given (lane, family)
        WHERE given.family <= looked_at
            AND given.family NOT IN (
                SELECT gave.family
                FROM unnest(lanes, families) AS gave (lane, family)
                WHERE gave.lane IN (SELECT unnest(served))
            );
        IF line.lanes IS NOT NULL THEN
            RETURN NEXT line;
        END IF;
    END IF;
END
$$;
