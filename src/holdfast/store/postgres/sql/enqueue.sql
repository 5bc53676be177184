-- Creating jobs. The first two also run on a caller's connection.

-- fragment: new_jobs
ROW(
        CAST(:ids AS text[]), CAST(:numbers AS integer[]),
        CAST(:lanes AS integer[]), CAST(:kinds AS text[]),
        CAST(CAST(:statuses AS text[]) AS holdfast.status[]),
        CAST(:arguments AS text[]), CAST(:priorities AS smallint[]),
        CAST(:max_attempts AS integer[]), CAST(:run_ats AS double precision[]),
        CAST(:deadlines AS double precision[]), CAST(:dedup_keys AS text[]),
        CAST(:owners AS text[]), CAST(:metas AS text[])
    ),
    CAST(CAST(:seqs AS text[]) AS bigint[]),
    CAST(:queues AS text[]),
    CAST(:downstreams AS text[])

-- name: enqueue
SELECT number, twin
FROM holdfast.enqueue(
    {{new_jobs}},
    CAST(:all_new AS boolean),
    CAST(:notify AS boolean),
    CAST(:now AS double precision)
);

-- name: enqueue_by_rule
SELECT number, twin
FROM holdfast.enqueue_by_rule(
    {{new_jobs}},
    CAST(:unfinished AS boolean[]),
    CAST(:seconds AS double precision[]),
    CAST(:notify AS boolean),
    CAST(:now AS double precision)
);

-- One job without a key, for which a caller waits: no function, whose expressions PL/pgSQL would prepare anew in
-- each transaction, and no arrays. It fails where the id is taken. No row, and nothing is created, where the
-- lane is not the one that is remembered; otherwise it is locked as in holdfast.lanes_are_known.
-- Returns whether the notification `:payload` goes with the commit. NOTIFY holds a lock on the whole server
-- until the commit is on disk, so only one job at a time does that, and the others do not wait for it.
-- name: enqueue_one
WITH job AS MATERIALIZED (
    SELECT
        lanes.id AS lane, lanes.kind, holdfast.next_page() AS seq, moment.t,
        CAST(CAST(:status AS text) AS holdfast.status) AS status,
        CAST(:status AS text) = 'queued'
            AND coalesce(CAST(:run_at AS double precision), 0) <= moment.t AS ready
    FROM holdfast.lanes, holdfast.time_of(CAST(:now AS double precision)) AS moment (t)
    WHERE lanes.id = CAST(:lane AS integer)
        AND lanes.queue = CAST(:queue AS text)
        AND lanes.downstream = CAST(:downstream AS text)
        AND lanes.kind = CAST(:kind AS text)
    FOR KEY SHARE OF lanes
), created AS (
    INSERT INTO holdfast.jobs (
        seq, last_event, id, lane, kind, status, ready, priority, ready_at, max_attempts,
        created_at, queued_at, deadline_at, owner, meta, arguments
    )
    SELECT
        seq, seq, CAST(:id AS text), lane, kind, status, ready, CAST(:priority AS smallint),
        greatest(CAST(:run_at AS double precision), t), CAST(:max_attempts AS integer), t,
        CASE WHEN status = 'queued' THEN t END, CAST(:deadline AS double precision),
        CAST(:owner AS text), CAST(:meta AS text), CAST(:arguments AS text)
    FROM job
), named AS (
    INSERT INTO holdfast.ids (id, job, owner)
    SELECT CAST(:id AS text), seq, CAST(:owner AS text) FROM job
), recorded AS (
    INSERT INTO holdfast.history (sequence, at, name, jobs)
    SELECT seq, t, status, ARRAY[seq] FROM job
)
INSERT INTO holdfast.counter_deltas (delta, family, a, b)
SELECT 1, 'lane', lane, holdfast.lane_counter(status, ready) FROM job
RETURNING CASE
    WHEN CAST(:payload AS text) IS NULL THEN false
    WHEN pg_try_advisory_xact_lock((18502::bigint << 48) | ((1::bigint << 48) - 2))
        THEN pg_notify('holdfast', :payload) IS NOT NULL
    ELSE false
END;

-- The numbers of so many pages, for jobs and not for events; and the time.
-- name: enqueue_take_numbers
SELECT nextval('holdfast.event_sequence'), moment.at
FROM holdfast.time_of(:now) AS moment (at), generate_series(1, CAST(:pages AS integer));

-- name: lanes_find
SELECT lanes.id, lanes.queue, lanes.downstream, lanes.kind
FROM unnest(
    CAST(:queues AS text[]), CAST(:downstreams AS text[]), CAST(:kinds AS text[])
) AS given (queue, downstream, kind)
JOIN holdfast.lanes USING (queue, downstream, kind);

-- Counted as empty, so that a lane whose first jobs are rolled back is deleted again.
-- name: lanes_create
WITH created AS (
    INSERT INTO holdfast.lanes (queue, downstream, kind)
    SELECT queue, downstream, kind
    FROM unnest(
        CAST(:queues AS text[]), CAST(:downstreams AS text[]), CAST(:kinds AS text[])
    ) AS given (queue, downstream, kind)
    ORDER BY queue, downstream, kind
    ON CONFLICT DO NOTHING
    RETURNING id
)
INSERT INTO holdfast.counter_deltas (delta, family, a, b)
SELECT 0, 'lane', id, 'ready' FROM created;

-- name: notify
SELECT pg_notify('holdfast', :payload);

-- Which database a connection is to. It may have no Holdfast schema, so none of it is used. As text,
-- since a caller's connection may read numbers as types of its own.
-- name: identity
SELECT
    CAST(control.system_identifier AS text), CAST(databases.oid AS text),
    CAST(extract(epoch FROM pg_postmaster_start_time()) AS text),
    CAST(current_database() AS text)
FROM pg_control_system() AS control, pg_database AS databases
WHERE databases.datname = current_database();

-- Whether the account may read the identifier of its server.
-- name: identity_right
SELECT coalesce(has_function_privilege(to_regprocedure('pg_control_system()'), 'EXECUTE'), false);

-- The same as `identity` for an account that may not: the start of the server stands for its identifier, see
-- holdfast.is_database.
-- name: identity_by_start
SELECT
    'started ' || extract(epoch FROM pg_postmaster_start_time()), CAST(databases.oid AS text),
    CAST(extract(epoch FROM pg_postmaster_start_time()) AS text),
    CAST(current_database() AS text)
FROM pg_database AS databases
WHERE databases.datname = current_database();

-- An element of :jobs is [id, kind, dedup_key, unfinished, seconds]. Returns the places, from 0, of those that enqueueing
-- would not create.
-- name: enqueue_repeated
SELECT given.number - 1
FROM jsonb_array_elements(CAST(:jobs AS jsonb)) WITH ORDINALITY AS given (job, number)
WHERE holdfast.job_of(given.job ->> 0) IS NOT NULL
    OR EXISTS (
        SELECT FROM holdfast.jobs
        WHERE jobs.kind = given.job ->> 1
            AND jobs.dedup_key = given.job ->> 2
            AND jobs.dedup_key IS NOT NULL
            AND jobs.status NOT IN ('failed', 'cancelled')
            AND (CAST(given.job ->> 3 AS boolean) AND jobs.finished_at IS NOT NULL) IS NOT TRUE
            AND (
                jobs.created_at
                <= holdfast.time_of(:now) - CAST(given.job ->> 4 AS double precision)
            ) IS NOT TRUE
    );
