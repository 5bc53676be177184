-- Which ready jobs of some lanes a claim takes: by priority, within a priority the owners in turn, within
-- an owner by time. The rule of the turns is also in holdfast.jobs.claim_sharing.
--
-- A sub-queue is the ready jobs of one lane, priority and owner ('' for none), in the order of their
-- times. The functions answer with sub-queues and how many jobs of each to take. They only read, and
-- lock nothing: holdfast.take_jobs locks what it takes.

-- The first owner from `p_from` on with ready jobs of one priority in some lanes.
CREATE OR REPLACE FUNCTION holdfast.next_owner(p_lanes integer[], p_priority smallint, p_from text)
RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT min(first.owner)
    FROM unnest(p_lanes) AS given (lane)
    CROSS JOIN LATERAL (
        SELECT coalesce(jobs.owner, '') COLLATE "C" AS owner
        FROM holdfast.jobs
        WHERE jobs.ready
            AND jobs.lane = given.lane
            AND jobs.priority = p_priority
            AND coalesce(jobs.owner, '') COLLATE "C" >= p_from
        ORDER BY coalesce(jobs.owner, '') COLLATE "C", jobs.ready_at, jobs.seq
        LIMIT 1
    ) AS first
$$;

-- Up to `p_most` owners with ready jobs of one priority in some lanes, in the order of their turns:
-- from the owner served last on, or after it where its turn is over, round to where it began. Without
-- those whose room in `p_rooms` is 0: an object of how many jobs of each owner may start, where that
-- is known.
CREATE OR REPLACE FUNCTION holdfast.owners_with_room(
    p_lanes integer[], p_priority smallint, p_last text, p_turn_is_over boolean, p_most integer,
    p_rooms jsonb
) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    -- chr(1) makes the first text after a given one.
    begins text := coalesce(CASE WHEN p_turn_is_over THEN p_last || chr(1) ELSE p_last END, '');
    owner text := holdfast.next_owner(p_lanes, p_priority, begins);
    wrapped boolean := begins = '';
    found integer := 0;
BEGIN
    WHILE found < p_most LOOP
        IF owner IS NULL AND NOT wrapped THEN
            wrapped := true;
            owner := holdfast.next_owner(p_lanes, p_priority, '');
        END IF;
        EXIT WHEN owner IS NULL OR (wrapped AND begins <> '' AND owner COLLATE "C" >= begins);
        IF (p_rooms -> owner) IS DISTINCT FROM '0' THEN
            RETURN NEXT owner;
            found := found + 1;
        END IF;
        owner := holdfast.next_owner(p_lanes, p_priority, owner || chr(1));
    END LOOP;
END
$$;

-- Share `p_limit` jobs of one priority among the owners who wait in the lanes of a family, of each no
-- more than its room in `p_rooms`. Each owner gives 10 jobs in a row, or an equal share where that is
-- more; `p_used` is what the owner served last, `p_last`, has had of its turn.
CREATE OR REPLACE FUNCTION holdfast.plan_owners_with_room(
    p_lanes integer[], p_priority smallint, p_limit integer, p_last text, p_used integer, p_rooms jsonb
) RETURNS SETOF holdfast.subqueue
LANGUAGE plpgsql AS $$
DECLARE
    turn CONSTANT integer := 10;
    -- With so many owners an equal share is less than a turn, so the others need not be counted.
    first CONSTANT integer := p_limit / turn + 1;
    subqueue holdfast.subqueue;
    remaining integer := p_limit;
    share integer;
    most integer;
    owners text[] := ARRAY(
        SELECT holdfast.owners_with_room(
            p_lanes, p_priority, p_last, p_used >= turn, first, p_rooms
        )
    );
BEGIN
    subqueue.priority := p_priority;
    share := greatest(turn, p_limit / greatest(1, cardinality(owners)));
    FOR place IN 1 .. p_limit LOOP
        EXIT WHEN remaining <= 0;
        IF place = first + 1 THEN
            -- The first ones gave less than a turn each: all are needed.
            owners := ARRAY(
                SELECT holdfast.owners_with_room(
                    p_lanes, p_priority, p_last, p_used >= turn, p_limit, p_rooms
                )
            );
        END IF;
        EXIT WHEN place > cardinality(owners);
        subqueue.owner := owners[place];
        most := least(remaining, CASE
            WHEN subqueue.owner = p_last AND p_used < turn THEN share - p_used ELSE share
        END, (p_rooms ->> subqueue.owner)::integer);
        FOR subqueue.lane, subqueue.quota IN
            SELECT head.lane, count(*)
            FROM (
                SELECT given.lane
                FROM unnest(p_lanes) AS given (lane)
                CROSS JOIN LATERAL (
                    SELECT jobs.ready_at, jobs.seq
                    FROM holdfast.jobs
                    WHERE jobs.ready
                        AND jobs.lane = given.lane
                        AND jobs.priority = p_priority
                        AND coalesce(jobs.owner, '') COLLATE "C" = subqueue.owner
                    ORDER BY jobs.ready_at, jobs.seq
                    LIMIT most
                ) AS job
                ORDER BY job.ready_at, job.seq
                LIMIT most
            ) AS head
            GROUP BY head.lane
        LOOP
            remaining := remaining - subqueue.quota;
            RETURN NEXT subqueue;
        END LOOP;
    END LOOP;
END
$$;

-- The only sub-queue with ready jobs in a lane, NULL where there are several or none. Given the job that
-- was taken last, its sub-queue, from there on: old index entries stand before it, see claim_memory.py.
-- Without one the sub-queue at the front of the lane.
CREATE OR REPLACE FUNCTION holdfast.only_subqueue(
    p_lane integer, p_priority smallint, p_owner text, p_ready_at double precision, p_seq bigint
) RETURNS holdfast.subqueue
LANGUAGE plpgsql STABLE AS $$
DECLARE
    level smallint := p_priority;
    name text := p_owner;
    alone boolean;
BEGIN
    IF p_seq IS NULL THEN
        -- The first and the last job in the order of the index are of one sub-queue.
        SELECT
            first.priority, first.owner,
            last.priority = first.priority AND last.owner = first.owner
        INTO level, name, alone
        FROM (
            SELECT jobs.priority, coalesce(jobs.owner, '') COLLATE "C" AS owner
            FROM holdfast.jobs
            WHERE jobs.ready AND jobs.lane = p_lane
            ORDER BY
                jobs.priority DESC, coalesce(jobs.owner, '') COLLATE "C", jobs.ready_at, jobs.seq
            LIMIT 1
        ) AS first
        CROSS JOIN (
            SELECT jobs.priority, coalesce(jobs.owner, '') COLLATE "C" AS owner
            FROM holdfast.jobs
            WHERE jobs.ready AND jobs.lane = p_lane
            ORDER BY
                jobs.priority, coalesce(jobs.owner, '') COLLATE "C" DESC, jobs.ready_at DESC,
                jobs.seq DESC
            LIMIT 1
        ) AS last;
    ELSE
        PERFORM FROM holdfast.jobs WHERE ready AND lane = p_lane AND priority > level
        UNION ALL
        SELECT FROM holdfast.jobs WHERE ready AND lane = p_lane AND priority < level
        UNION ALL
        SELECT FROM holdfast.jobs
        WHERE ready AND lane = p_lane AND priority = level AND coalesce(owner, '') COLLATE "C" > name
        UNION ALL
        SELECT FROM holdfast.jobs
        WHERE ready AND lane = p_lane AND priority = level AND coalesce(owner, '') COLLATE "C" < name
        LIMIT 1;
        alone := NOT FOUND;
    END IF;
    IF alone IS NOT TRUE THEN
        RETURN NULL;
    END IF;
    RETURN ROW(p_lane, level, name, NULL, p_ready_at, p_seq)::holdfast.subqueue;
END
$$;

-- Choose up to `most` jobs of each family of lanes, as sub-queues. A family is what the documentation calls
-- a lane: the rows of one queue and downstream, one per kind. The arrays are those of
-- holdfast.claim_request.
--
-- Each lane's first jobs are read in the order of the index. What has a higher priority than the last
-- job that is needed is taken as it is; only for that job's priority the owners matter.
CREATE OR REPLACE FUNCTION holdfast.plan_claim(
    p_lanes integer[], p_families integer[], p_most integer[], p_owners text[], p_used integer[]
) RETURNS SETOF holdfast.subqueue
LANGUAGE sql STABLE AS $$
    WITH head AS MATERIALIZED (
        SELECT
            given.*, job.priority, job.owner,
            row_number() OVER (
                PARTITION BY given.family ORDER BY job.priority DESC, job.ready_at, job.seq
            ) AS rank,
            lead(1) OVER (
                PARTITION BY given.lane ORDER BY job.priority DESC, job.owner, job.ready_at, job.seq
            ) IS NULL AS is_last
        FROM unnest(p_lanes, p_families, p_most, p_owners, p_used)
            AS given (lane, family, most, last_owner, used)
        CROSS JOIN LATERAL (
            SELECT
                jobs.priority, coalesce(jobs.owner, '') COLLATE "C" AS owner, jobs.ready_at,
                jobs.seq
            FROM holdfast.jobs
            WHERE jobs.ready AND jobs.lane = given.lane
            ORDER BY
                jobs.priority DESC, coalesce(jobs.owner, '') COLLATE "C", jobs.ready_at, jobs.seq
            LIMIT given.most
        ) AS job
    ), cut AS MATERIALIZED (
        -- Families with more jobs than are needed, where several owners wait at the priority of the
        -- last one needed.
        SELECT cut.family, cut.priority, cut.most, cut.last_owner, cut.used
        FROM head AS cut
        WHERE cut.rank = cut.most
            AND EXISTS (
                SELECT FROM head
                WHERE head.family = cut.family
                    AND head.priority = cut.priority
                    AND (head.owner <> cut.owner OR (head.is_last AND EXISTS (
                        SELECT FROM holdfast.jobs
                        WHERE jobs.ready
                            AND jobs.lane = head.lane
                            AND jobs.priority = head.priority
                            AND coalesce(jobs.owner, '') COLLATE "C" > head.owner
                    )))
            )
    )
    SELECT head.lane, head.priority, head.owner, count(*)::integer, NULL::double precision, NULL::bigint
    FROM head
    LEFT JOIN cut ON cut.family = head.family
    WHERE CASE
        WHEN cut.family IS NULL THEN head.rank <= head.most
        ELSE head.priority > cut.priority
    END
    GROUP BY head.lane, head.priority, head.owner
    UNION ALL
    SELECT shares.*
    FROM cut
    CROSS JOIN LATERAL holdfast.plan_owners_with_room(
        ARRAY(
            SELECT given.lane
            FROM unnest(p_lanes, p_families) AS given (lane, family)
            WHERE given.family = cut.family
        ),
        cut.priority,
        cut.most - (
            SELECT count(*)::integer FROM head
            WHERE head.family = cut.family AND head.priority > cut.priority
        ),
        cut.last_owner, cut.used, '{}'::jsonb
    ) AS shares
$$;
