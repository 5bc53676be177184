-- Which workers are alive. Each holds an advisory lock on its heartbeat's session, which PostgreSQL
-- releases when the process or its connection ends. 18503 is "HG".

CREATE OR REPLACE FUNCTION holdfast.session_key(p_session bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT (18503::bigint << 48) | p_session
$$;

-- Register a worker as alive for as long as this session lasts. Each session has a number and a lock
-- of its own, so a worker that connects again never waits for a session that the server has not given
-- up yet. `p_pid` is the backend that the worker believes to be connected to: behind a pooler that is
-- another one, sessions are shared, and the lease alone says when the worker is dead. `p_kinds` are the
-- kinds that it can run.
CREATE OR REPLACE FUNCTION holdfast.register_worker(
    p_worker text, p_pid integer, p_kinds text[]
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
BEGIN
    IF p_pid <> pg_backend_pid() THEN
        DELETE FROM holdfast.workers WHERE id = p_worker;
        RETURN false;
    END IF;
    number := nextval('holdfast.worker_sessions');
    PERFORM pg_advisory_lock(holdfast.session_key(number));
    INSERT INTO holdfast.workers (id, session, kinds) VALUES (p_worker, number, p_kinds)
    ON CONFLICT (id) DO UPDATE SET
        session = excluded.session, missing_since = NULL,
        server_started = excluded.server_started, kinds = excluded.kinds;
    RETURN true;
END
$$;

-- The same for a worker of the release before, which does not say what it can run.
CREATE OR REPLACE FUNCTION holdfast.register_worker(p_worker text, p_pid integer) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT holdfast.register_worker(p_worker, p_pid, NULL)
$$;

-- Say whether a registered worker is dead: its session has ended, which was first noticed three seconds
-- ago, and it has not registered again. The three seconds are for a worker that has lost its connection
-- only: it may need one to notice. After a restart of the server or a failover, when all workers have
-- lost theirs and must find the server again, it is fifteen seconds.
CREATE OR REPLACE FUNCTION holdfast.is_dead(p_worker text, t double precision) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    worker holdfast.workers;
BEGIN
    SELECT * INTO worker FROM holdfast.workers WHERE id = p_worker;
    IF worker.id IS NULL
        OR NOT pg_try_advisory_xact_lock_shared(holdfast.session_key(worker.session))
    THEN
        RETURN false;
    ELSIF worker.missing_since IS NULL THEN
        UPDATE holdfast.workers SET missing_since = t
        WHERE id = p_worker AND session = worker.session;
        RETURN false;
    END IF;
    RETURN worker.missing_since <= t - CASE
        WHEN worker.server_started = pg_postmaster_start_time() THEN 3 ELSE 15
    END;
END
$$;

-- Forget dead workers that have no jobs left, and what they led.
CREATE OR REPLACE FUNCTION holdfast.forget_workers(p_workers text[]) RETURNS void
LANGUAGE sql VOLATILE AS $$
    UPDATE holdfast.leaders SET expires_at = 0 WHERE holder = ANY (p_workers) AND expires_at > 0;
    DELETE FROM holdfast.workers
    WHERE id = ANY (p_workers)
        AND missing_since IS NOT NULL
        AND NOT EXISTS (SELECT FROM holdfast.jobs WHERE jobs.worker_id = workers.id);
$$;

-- Forget leaderships that no worker has had for an hour: each change of an app's declarations leaves one.
CREATE OR REPLACE FUNCTION holdfast.forget_leaderships(t double precision) RETURNS void
LANGUAGE sql VOLATILE AS $$
    DELETE FROM holdfast.leaders WHERE expires_at <= t - 3600;
$$;

-- Become or stay the leader: the term and its end; nothing where another worker leads and lives.
CREATE OR REPLACE FUNCTION holdfast.lead(
    p_name text, p_holder text, p_seconds double precision, p_now double precision
) RETURNS TABLE (term bigint, expires_at double precision)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    t double precision := holdfast.time_of(p_now);
    leader holdfast.leaders;
BEGIN
    SELECT * INTO leader FROM holdfast.leaders WHERE name = p_name;
    IF leader.holder <> p_holder AND leader.expires_at > t THEN
        IF NOT holdfast.is_dead(leader.holder, t) THEN
            RETURN;
        END IF;
        UPDATE holdfast.leaders SET expires_at = 0 WHERE name = p_name AND holder = leader.holder;
    END IF;
    RETURN QUERY
    INSERT INTO holdfast.leaders AS present (name, holder, term, expires_at)
    VALUES (p_name, p_holder, 1, t + p_seconds)
    ON CONFLICT (name) DO UPDATE SET
        term = present.term + CASE
            WHEN present.holder <> excluded.holder OR present.expires_at <= t THEN 1
            ELSE 0
        END,
        holder = excluded.holder,
        expires_at = excluded.expires_at
    WHERE present.holder = excluded.holder OR present.expires_at <= t
    RETURNING present.term, present.expires_at;
END
$$;

-- Tell a worker of a request to cancel one of its running jobs, and forget requests that are answered.
CREATE OR REPLACE FUNCTION holdfast.note_cancel_request(p_worker text, p_job bigint) RETURNS void
LANGUAGE sql VOLATILE AS $$
    DELETE FROM holdfast.cancel_requests
    WHERE NOT EXISTS (
        SELECT FROM holdfast.jobs
        WHERE jobs.seq = cancel_requests.job
            AND jobs.worker_id = cancel_requests.worker_id
            AND jobs.cancel_requested
    );
    INSERT INTO holdfast.cancel_requests (worker_id, job) VALUES (p_worker, p_job)
    ON CONFLICT DO NOTHING;
$$;

-- Workers that are alive, or have jobs under lease. A worker whose session has ended is neither, unless
-- it has jobs: it has ended, or it connects again soon.
CREATE OR REPLACE FUNCTION holdfast.list_workers()
RETURNS TABLE (id text, running bigint, finish_requested_at double precision)
LANGUAGE sql VOLATILE AS $$
    SELECT found.id, sum(found.running)::bigint, min(finish_requests.requested_at)
    FROM (
        SELECT workers.id, 0 AS running
        FROM holdfast.workers
        WHERE NOT pg_try_advisory_xact_lock_shared(holdfast.session_key(workers.session))
        UNION ALL
        SELECT jobs.worker_id, count(*) FROM holdfast.jobs
        WHERE jobs.worker_id IS NOT NULL
        GROUP BY jobs.worker_id
        UNION ALL
        -- Behind a pooler a worker has no row, but one of them leads.
        SELECT leaders.holder, 0
        FROM holdfast.leaders
        WHERE leaders.expires_at > holdfast.time_of(NULL)
            AND NOT EXISTS (SELECT FROM holdfast.workers WHERE workers.id = leaders.holder)
    ) AS found (id, running)
    LEFT JOIN holdfast.finish_requests ON finish_requests.worker_id = found.id
    GROUP BY found.id
$$;

-- Ask a worker to finish; false where there is none of that id. A worker finds its request within
-- seconds, so those of yesterday are forgotten.
CREATE OR REPLACE FUNCTION holdfast.request_finish(p_worker text, p_now double precision)
RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    t double precision := holdfast.time_of(p_now);
BEGIN
    DELETE FROM holdfast.finish_requests WHERE requested_at < t - 86400;
    PERFORM FROM holdfast.list_workers() AS workers WHERE workers.id = p_worker;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO holdfast.finish_requests (worker_id, requested_at) VALUES (p_worker, t)
    ON CONFLICT DO NOTHING;
    RETURN true;
END
$$;
