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
