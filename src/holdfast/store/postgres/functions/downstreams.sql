-- Records of keyed downstreams that nothing uses.

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
        WHERE downstreams.used_at < ended.at - 3600
        FOR UPDATE OF downstreams SKIP LOCKED
    )
    UPDATE holdfast.downstreams SET used_at = stale.at FROM stale WHERE stale.name = downstreams.name
$$;

-- Delete up to `p_limit` records that keys of the downstream `p_name` have made: closed, without jobs, finished
-- ones included, and not used for `p_unused_for` seconds. One that has jobs counts as used now, so that it is not
-- looked at again soon. A job that is created meanwhile finds no record: its worker declares it again.
CREATE OR REPLACE FUNCTION holdfast.delete_unused_downstreams(
    p_name text, p_unused_for double precision, p_limit integer, p_now double precision
) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    t double precision := holdfast.time_of(p_now);
    prefix text := p_name || ':';
    looked_at text[] := ARRAY(
        SELECT name
        FROM holdfast.downstreams
        WHERE substr(name, 1, strpos(name, ':')) = substr(prefix, 1, strpos(prefix, ':')) COLLATE "C"
            AND state = 'CLOSED'
            AND starts_with(name, prefix)
            AND used_at <= t - p_unused_for
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
        RETURNING name
    )
    SELECT array_agg(name) INTO gone FROM deleted;
    DELETE FROM holdfast.rate_spent WHERE downstream = ANY (gone);
    UPDATE holdfast.downstreams SET used_at = t WHERE name = ANY (looked_at);
    RETURN coalesce(cardinality(gone), 0);
END
$$;
