-- Let jobs that are due become ready; return when the next one is. At most 1000 at a time, so that the
-- tick that does it is not delayed for long. Jobs that another transaction has locked are skipped.
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
