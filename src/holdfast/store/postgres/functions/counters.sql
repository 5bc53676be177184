-- Counters are appended as deltas and folded now and then.

-- The counter of its lane that a job belongs to. STABLE, as the text of an enum is: PostgreSQL makes a
-- function part of the calling statement only where that is not declared stricter than its body.
CREATE OR REPLACE FUNCTION holdfast.lane_counter(p_status holdfast.status, p_ready boolean) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN p_ready THEN 'ready' WHEN p_status = 'queued' THEN 'scheduled' ELSE p_status::text
    END
$$;

CREATE OR REPLACE FUNCTION holdfast.count_total(p_name text, p_delta bigint) RETURNS void
LANGUAGE sql VOLATILE AS $$
    INSERT INTO holdfast.counter_deltas (delta, family, a) VALUES (p_delta, 'total', p_name)
$$;

-- Delete those of the given lanes that no job is counted in. Enqueueing locks its lanes as well, so what
-- it counts is either seen here or finds the lane gone, see holdfast.lanes_are_known. A lane that an
-- open transaction has locked is looked at again by the next fold: the transaction may be rolled back.
CREATE OR REPLACE FUNCTION holdfast.delete_unused_lanes(p_lanes integer[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    empty integer[] := ARRAY(
        SELECT lanes.id FROM holdfast.lanes
        WHERE lanes.id = ANY (p_lanes)
            AND NOT EXISTS (
                SELECT FROM holdfast.counters WHERE family = 'lane' AND a = lanes.id::text
            )
    );
    locked integer[] := ARRAY(
        SELECT lanes.id FROM holdfast.lanes WHERE lanes.id = ANY (empty) FOR UPDATE SKIP LOCKED
    );
BEGIN
    INSERT INTO holdfast.counter_deltas (delta, family, a, b)
    SELECT 0, 'lane', lane, 'ready' FROM unnest(empty) AS given (lane) WHERE lane <> ALL (locked);
    DELETE FROM holdfast.lanes
    WHERE lanes.id = ANY (locked)
        AND lanes.id::text NOT IN (
            SELECT deltas.a FROM holdfast.counter_deltas AS deltas WHERE deltas.family = 'lane'
        );
END
$$;

-- Fold the deltas into the counters, unless another process does it at this moment. The family `kind`,
-- the sum over the lanes of a kind, has no deltas of its own. Lanes that are empty now are deleted.
CREATE OR REPLACE FUNCTION holdfast.fold_counters() RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    emptied integer[];
BEGIN
    IF NOT pg_try_advisory_xact_lock((18502::bigint << 48) | ((1::bigint << 48) - 1)) THEN
        RETURN;
    END IF;
    WITH gone AS (
        DELETE FROM holdfast.counter_deltas RETURNING delta, family, a, b, c
    ), folded AS (
        SELECT family, a, b, c, sum(delta) AS delta FROM gone GROUP BY family, a, b, c
    )
    INSERT INTO holdfast.counters AS kept (family, a, b, c, count)
    SELECT family, a, b, c, delta FROM folded
    UNION ALL
    SELECT 'kind', lanes.kind, folded.b, '', sum(folded.delta)
    FROM folded
    JOIN holdfast.lanes ON lanes.id = CASE folded.family WHEN 'lane' THEN folded.a::integer END
    GROUP BY lanes.kind, folded.b
    ON CONFLICT (family, a, b, c) DO UPDATE SET count = kept.count + excluded.count;
    WITH empty AS (
        DELETE FROM holdfast.counters WHERE count = 0 RETURNING family, a
    )
    SELECT array_agg(DISTINCT a::integer) INTO emptied FROM empty WHERE family = 'lane';
    IF emptied IS NOT NULL THEN
        PERFORM holdfast.delete_unused_lanes(emptied);
    END IF;
END
$$;
