-- Counters are appended as deltas and folded now and then.

-- The counter of its lane that a job belongs to.
CREATE OR REPLACE FUNCTION holdfast.place_of(p_status holdfast.status, p_ready boolean) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN p_ready THEN 'ready' WHEN p_status = 'queued' THEN 'scheduled' ELSE p_status::text
    END
$$;

CREATE OR REPLACE FUNCTION holdfast.count_total(p_name text, p_delta bigint) RETURNS void
LANGUAGE sql VOLATILE AS $$
    INSERT INTO holdfast.counter_deltas (delta, family, a) VALUES (p_delta, 'total', p_name)
$$;

-- Fold the deltas into the counters, unless another process does it at this moment.
CREATE OR REPLACE FUNCTION holdfast.fold_counters() RETURNS void
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
