-- Claiming, the second half of a worker's tick.
--
-- A lane here is a row of holdfast.lanes: a queue, downstream and kind. Lanes that differ only in their
-- kind are a family; families are served in turn, in the order of their numbers.
--
--   holdfast.claim        goes over the families that wait, as many at a time as jobs are wanted
--   holdfast.claim_from   divides the jobs wanted among these families
--   holdfast.choose_jobs  says which jobs of their lanes; plan.sql has the rules
--   holdfast.take_jobs    starts the attempts; in take.sql
--
-- Locks: rows of jobs, by take_jobs and time_out_ready, always with SKIP LOCKED. A claim therefore waits
-- for no other transaction and cannot be part of a deadlock. Choosing locks nothing: what it has read may
-- be taken by another claim, and then the next step looks again. Downstreams are not locked here: where
-- a limit must be counted, the answer is "check", and claim.py claims in steps under their locks.

-- Which jobs to take from some families: about `p_share` of each. A second attempt is made where all
-- chosen jobs turn out to be locked by other claims:
--   0   those after the job that this worker took last, if there is only one lane and sub-queue
--   1   those that are next by priority, owner and time
--   2   any of the first lane of each family; 3, of the second lane; and so on
CREATE OR REPLACE FUNCTION holdfast.choose_jobs(
    p_request holdfast.claim_request, p_lanes integer[], p_families integer[], p_share integer,
    p_attempt integer
) RETURNS holdfast.subqueue[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    known integer := CASE WHEN p_attempt = 0 THEN array_position(p_request.lanes, p_lanes[1]) END;
    one holdfast.subqueue;
BEGIN
    IF p_attempt > 1 THEN
        RETURN ARRAY(
            SELECT ROW(numbered.lane, NULL, NULL, p_share, NULL, NULL)::holdfast.subqueue
            FROM (
                SELECT lane, row_number() OVER (PARTITION BY family ORDER BY lane) AS number
                FROM unnest(p_lanes, p_families) AS given (lane, family)
            ) AS numbered
            WHERE numbered.number = p_attempt - 1
        );
    ELSIF cardinality(p_lanes) = 1 THEN
        one := holdfast.only_subqueue(
            p_lanes[1], p_request.priorities[known], p_request.owners[known],
            p_request.ready_ats[known], p_request.seqs[known]
        );
        IF one.lane IS NOT NULL THEN
            one.quota := p_share;
            RETURN ARRAY[one];
        END IF;
    END IF;
    RETURN ARRAY(
        SELECT ROW(plan.*)::holdfast.subqueue
        FROM (
            SELECT
                array_agg(given.lane) AS lanes, array_agg(given.family) AS families,
                array_agg(p_share) AS most, array_agg(memory.owner) AS owners,
                array_agg(memory.used) AS used
            FROM unnest(p_lanes, p_families) AS given (lane, family)
            LEFT JOIN unnest(p_request.lanes, p_request.owners, p_request.used)
                AS memory (lane, owner, used) ON memory.lane = given.lane
        ) AS wanted
        CROSS JOIN LATERAL holdfast.plan_claim(
            wanted.lanes, wanted.families, wanted.most, wanted.owners, wanted.used
        ) AS plan
    );
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
    remaining integer := p_limit;
    most integer;
    -- Most claims are from one lane: what needs a statement of its own is left out for them.
    all_families integer[] := p_families;
    waiting integer[];
    asked integer[];
    others integer[];
    lanes integer[];
    families integer[];
    attempt integer := 0;
    chosen holdfast.subqueue[];
BEGIN
    IF cardinality(all_families) > 1 THEN
        all_families := ARRAY(SELECT DISTINCT unnest(p_families) AS family ORDER BY family);
    END IF;
    waiting := all_families;
    WHILE remaining > 0 AND waiting <> '{}' LOOP
        most := least(remaining, 10000);
        asked := waiting[:most];
        others := waiting[most + 1 :];
        lanes := p_lanes;
        families := p_families;
        IF asked <> all_families THEN
            SELECT array_agg(given.lane), array_agg(given.family) INTO lanes, families
            FROM unnest(p_lanes, p_families) AS given (lane, family)
            JOIN unnest(asked) AS wanted (family) ON wanted.family = given.family;
        END IF;
        IF cardinality(lanes) > 1 THEN
            attempt := greatest(attempt, 1);
        END IF;
        chosen := holdfast.choose_jobs(
            p_request, lanes, families, most / cardinality(asked), attempt
        );
        IF chosen = '{}' THEN
            waiting := others;
            attempt := 0;
            CONTINUE;
        END IF;
        line := holdfast.take_jobs(p_worker, chosen, p_lanes, p_generations, p_request.lease, t);
        IF line.seqs IS NULL THEN
            attempt := attempt + 1;
            CONTINUE;
        END IF;
        RETURN NEXT line;
        remaining := remaining - cardinality(line.seqs);
        EXIT WHEN remaining <= 0;
        -- The rest comes from the families that were not asked yet, then from those that gave jobs.
        waiting := others || ARRAY(
            SELECT given.family
            FROM unnest(lanes, families) AS given (lane, family)
            JOIN unnest(line.lanes) AS gave (lane) ON gave.lane = given.lane
            GROUP BY given.family
            ORDER BY array_position(asked, given.family)
        );
        IF others <> '{}' THEN
            attempt := 0;
        END IF;
    END LOOP;
END
$$;

-- Which lanes of the families `p_first` to `p_last` have ready jobs that may be claimed at once, and the
-- generations of their permits. `needs_check`: there are others that must be checked first. `cools_at`:
-- when the first held one may be tried again.
CREATE OR REPLACE FUNCTION holdfast.open_lanes(
    p_request holdfast.claim_request, p_lanes integer[], p_families integer[],
    p_first integer, p_last integer, t double precision,
    OUT lanes integer[], OUT families integer[], OUT generations bigint[],
    OUT needs_check boolean, OUT cools_at double precision
)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT
        array_agg(state.lane ORDER BY given.family) FILTER (WHERE state.held_until IS NULL),
        array_agg(given.family ORDER BY given.family) FILTER (WHERE state.held_until IS NULL),
        array_agg(state.generation ORDER BY given.family) FILTER (WHERE state.held_until IS NULL),
        coalesce(bool_or(state.needs_check OR (
            state.held_until IS NULL AND state.kind = ANY (p_request.limited)
        )), false) OR holdfast.owners_are_limited(),
        min(state.held_until) FILTER (WHERE state.held_until < 'infinity')
    INTO lanes, families, generations, needs_check, cools_at
    FROM unnest(p_lanes, p_families) AS given (lane, family)
    CROSS JOIN LATERAL holdfast.remembered_lanes(
        ARRAY[given.lane], p_request.queues, p_request.kinds, t
    ) AS state
    WHERE given.family BETWEEN p_first AND p_last;
END
$$;

-- The lanes of those families up to number `p_last` of which no lane is among `p_served`.
CREATE OR REPLACE FUNCTION holdfast.idle_lanes(
    p_lanes integer[], p_families integer[], p_last integer, p_served integer[]
) RETURNS integer[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT array_agg(given.lane)
        FROM unnest(p_lanes, p_families) AS given (lane, family)
        WHERE given.family <= p_last
            AND given.family NOT IN (
                SELECT gave.family
                FROM unnest(p_lanes, p_families) AS gave (lane, family)
                WHERE gave.lane IN (SELECT unnest(p_served))
            )
    );
END
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
    step record;
    served integer[] := '{}';
    needs_check boolean := false;
    wake_at double precision := holdfast.promote(t);
BEGIN
    LOOP
        IF looked_at >= coalesce(families[cardinality(families)], 0) THEN
            EXIT WHEN scanned;
            scanned := true;
            looked_at := 0;
            step := holdfast.scan_lanes(p_request, t);
            lanes := step.lanes;
            families := step.families;
            wake_at := least(wake_at, step.cools_at);
            line := NULL;
            line.what := 'scanned';
            line.lanes := lanes;
            line.at := step.seconds;
            RETURN NEXT line;
        END IF;
        EXIT WHEN lanes IS NULL OR remaining <= 0;
        step := holdfast.open_lanes(
            p_request, lanes, families, looked_at + 1, looked_at + remaining, t
        );
        wake_at := least(wake_at, step.cools_at);
        needs_check := step.needs_check;
        EXIT WHEN needs_check;
        looked_at := looked_at + remaining;
        IF step.lanes IS NOT NULL THEN
            RETURN QUERY
            SELECT
                late.*,
                NULL::smallint[], NULL::double precision[], NULL::text[], NULL::text[], NULL::text[]
            FROM holdfast.time_out_ready(step.lanes, p_timeout, t) AS late;
            FOR line IN
                SELECT * FROM holdfast.claim_from(
                    p_worker, p_request, step.lanes, step.families, step.generations, remaining, t
                )
            LOOP
                RETURN NEXT line;
                remaining := remaining - cardinality(line.seqs);
                IF cardinality(step.lanes) = 1 THEN
                    served := served || step.lanes;
                ELSE
                    served := served || ARRAY(SELECT DISTINCT unnest(line.lanes));
                END IF;
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
        line.lanes := holdfast.idle_lanes(lanes, families, looked_at, served);
        IF line.lanes IS NOT NULL THEN
            RETURN NEXT line;
        END IF;
    END IF;
END
$$;
