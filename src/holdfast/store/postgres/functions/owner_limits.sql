-- Claiming while owners have limits, see jobs/owner_limits.py.

-- Whether a claim must look at the limits of owners. In PL/pgSQL, which keeps its plan.
CREATE OR REPLACE FUNCTION holdfast.owners_are_limited() RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM holdfast.owner_limits WHERE concurrency IS NOT NULL OR rate IS NOT NULL
    );
END
$$;

-- Choose up to `most` jobs of each family of lanes, as holdfast.plan_claim does, but of each owner no
-- more than its room in `p_rooms`, see holdfast.owners_with_room; what is chosen takes room. Every
-- owner's jobs are skipped in one step of the index, however many wait.
CREATE OR REPLACE FUNCTION holdfast.plan_with_room(
    p_lanes integer[], p_families integer[], p_most integer[], p_owners text[], p_used integer[],
    p_rooms jsonb
) RETURNS SETOF holdfast.subqueue
LANGUAGE plpgsql AS $$
DECLARE
    family record;
    level integer;
    remaining integer;
    rooms jsonb := p_rooms;
    room integer;
    subqueue holdfast.subqueue;
BEGIN
    FOR family IN
        SELECT
            array_agg(given.lane) AS lanes, min(given.most) AS most,
            min(given.last_owner) AS last_owner, min(given.used) AS used
        FROM unnest(p_lanes, p_families, p_most, p_owners, p_used)
            AS given (lane, family, most, last_owner, used)
        GROUP BY given.family
        ORDER BY given.family
    LOOP
        remaining := family.most;
        level := holdfast.level_below(family.lanes, 1 << 15);
        WHILE remaining > 0 AND level IS NOT NULL LOOP
            FOR subqueue IN
                SELECT * FROM holdfast.plan_owners_with_room(
                    family.lanes, level::smallint, remaining, family.last_owner, family.used, rooms
                )
            LOOP
                remaining := remaining - subqueue.quota;
                room := (rooms ->> subqueue.owner)::integer - subqueue.quota;
                IF room IS NOT NULL THEN
                    rooms := rooms || jsonb_build_object(subqueue.owner, room);
                END IF;
                RETURN NEXT subqueue;
            END LOOP;
            level := holdfast.level_below(family.lanes, level);
        END LOOP;
    END LOOP;
END
$$;

-- Up to `p_most` owners who wait in the lanes of a family, in the order in which
-- holdfast.plan_with_room asks them. Without those whose room in `p_rooms` is 0. A turn is over after
-- 10 jobs, as in holdfast.plan_owners_with_room.
CREATE OR REPLACE FUNCTION holdfast.waiting_owners(
    p_lanes integer[], p_last text, p_used integer, p_most integer, p_rooms jsonb
) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
    level integer := holdfast.level_below(p_lanes, 1 << 15);
    remaining integer := p_most;
    owner text;
BEGIN
    WHILE remaining > 0 AND level IS NOT NULL LOOP
        FOR owner IN
            SELECT holdfast.owners_with_room(
                p_lanes, level::smallint, p_last, p_used >= 10, remaining, p_rooms
            )
        LOOP
            remaining := remaining - 1;
            RETURN NEXT owner;
        END LOOP;
        level := holdfast.level_below(p_lanes, level);
    END LOOP;
END
$$;

-- The highest priority below `p_level` of ready jobs in some lanes.
CREATE OR REPLACE FUNCTION holdfast.level_below(p_lanes integer[], p_level integer) RETURNS integer
LANGUAGE sql STABLE AS $$
    SELECT max(first.priority)
    FROM unnest(p_lanes) AS given (lane)
    CROSS JOIN LATERAL (
        SELECT jobs.priority
        FROM holdfast.jobs
        WHERE jobs.ready AND jobs.lane = given.lane AND jobs.priority < p_level
        ORDER BY jobs.priority DESC
        LIMIT 1
    ) AS first
$$;
