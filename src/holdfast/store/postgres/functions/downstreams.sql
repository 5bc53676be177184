-- Records of keyed downstreams that nothing uses.

-- Seconds to which the last use of a record is known; as USE_NOTED_EVERY in jobs/downstreams/record.py.
CREATE OR REPLACE FUNCTION holdfast.use_noted_every() RETURNS double precision
LANGUAGE sql IMMUTABLE AS $$ SELECT 3600.0::double precision $$;

-- Note when the jobs that are being deleted have used their downstreams, to the hour. Locked records are left
-- alone: a claim has them, so their downstreams have other jobs. Waiting for them could deadlock.
CREATE OR REPLACE FUNCTION holdfast.note_last_use(p_jobs bigint[]) RETURNS void
LANGUAGE sql VOLATILE AS $$
    WITH ended AS MATERIALIZED (
        SELECT lanes.downstream, max(jobs.finished_at) AS at
        FROM holdfast.jobs
        JOIN holdfast.lanes ON lanes.id = jobs.lane
        WHERE jobs.seq = ANY (p_jobs) AND lanes.downstream <> ''
        GROUP BY lanes.downstream
    ), stale AS MATERIALIZED (
        SELECT downstreams.name, ended.at
        FROM holdfast.downstreams
        JOIN ended ON ended.downstream = downstreams.name
        WHERE downstreams.parent IS NOT NULL
            AND downstreams.used_at < ended.at - holdfast.use_noted_every()
        FOR UPDATE OF downstreams SKIP LOCKED
    )
    UPDATE holdfast.downstreams SET used_at = stale.at FROM stale WHERE stale.name = downstreams.name
$$;

-- Delete up to `p_limit` records that keys of the downstream `p_name` have made: without jobs, finished ones included,
-- and not used for `p_unused_for` seconds. A record is kept while it has jobs, while its breaker's window is longer than
-- that, and while it is open: until open_until, or, without one, because an operator holds it. It counts as used now, so
-- that it is not looked at again soon. A job that is created meanwhile finds no record: its worker declares it again.
CREATE OR REPLACE FUNCTION holdfast.delete_unused_downstreams(
    p_name text, p_unused_for double precision, p_limit integer, p_now double precision
) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    t double precision := holdfast.time_of(p_now);
    looked_at text[] := ARRAY(
        SELECT name
        FROM holdfast.downstreams
        WHERE parent = p_name COLLATE "C" AND used_at <= t - p_unused_for
        ORDER BY used_at
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    );
    gone text[];
BEGIN
    WITH deleted AS (
        DELETE FROM holdfast.downstreams
        WHERE name = ANY (looked_at)
            AND NOT EXISTS (SELECT FROM holdfast.lanes WHERE lanes.downstream = downstreams.name)
            AND coalesce(CAST(CAST(settings AS json) #>> '{breaker,window_seconds}' AS double precision), 0)
                <= p_unused_for
            AND (state <> 'OPEN' OR open_until <= t)
        RETURNING name
    )
    SELECT array_agg(name) INTO gone FROM deleted;
    DELETE FROM holdfast.rate_spent WHERE downstream = ANY (gone);
    UPDATE holdfast.downstreams SET used_at = t WHERE name = ANY (looked_at);
    RETURN coalesce(cardinality(gone), 0);
END
$$;
