-- Creating jobs. The first also runs on a caller's connection.

-- name: enqueue
SELECT number, twin
FROM holdfast.enqueue(
    ROW(
        CAST(:ids AS text[]), CAST(:numbers AS integer[]),
        CAST(:lanes AS integer[]), CAST(:kinds AS text[]),
        CAST(CAST(:statuses AS text[]) AS holdfast.status[]),
        CAST(:arguments AS text[]), CAST(:priorities AS smallint[]),
        CAST(:max_attempts AS integer[]), CAST(:run_ats AS double precision[]),
        CAST(:deadlines AS double precision[]), CAST(:dedup_keys AS text[]),
        CAST(:owners AS text[]), CAST(:metas AS text[])
    ),
    CAST(:all_new AS boolean),
    CAST(:notify AS boolean),
    CAST(:now AS double precision)
);

-- name: lanes_find
SELECT lanes.id, lanes.queue, lanes.downstream, lanes.kind
FROM unnest(
    CAST(:queues AS text[]), CAST(:downstreams AS text[]), CAST(:kinds AS text[])
) AS given (queue, downstream, kind)
JOIN holdfast.lanes USING (queue, downstream, kind);

-- name: lanes_create
INSERT INTO holdfast.lanes (queue, downstream, kind)
SELECT queue, downstream, kind
FROM unnest(
    CAST(:queues AS text[]), CAST(:downstreams AS text[]), CAST(:kinds AS text[])
) AS given (queue, downstream, kind)
ORDER BY queue, downstream, kind
ON CONFLICT DO NOTHING;

-- name: lanes_by_id
SELECT id, queue, downstream, kind
FROM holdfast.lanes
WHERE id = ANY (CAST(:ids AS integer[]));

-- name: notify
SELECT pg_notify('holdfast', :payload);

-- Which database a connection is to. It may have no Holdfast schema, so none of it is used.
-- name: identity
SELECT control.system_identifier, CAST(databases.oid AS bigint)
FROM pg_control_system() AS control, pg_database AS databases
WHERE databases.datname = current_database();
