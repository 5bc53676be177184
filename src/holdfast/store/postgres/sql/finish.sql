-- A worker's tick, in one round trip; see functions/tick.sql.

-- name: tick
SELECT *
FROM holdfast.report_and_claim(
    CAST(:names AS text[]), CAST(:versions AS bigint[]),
    ROW(
        CAST(:seqs AS bigint[]), CAST(:ids AS text[]), CAST(:tokens AS bigint[]),
        CAST(:workers AS text[]), CAST(:outcomes AS text[]), CAST(:results AS text[]),
        CAST(:codes AS text[]), CAST(:messages AS text[]), CAST(:groups AS text[]),
        CAST(:reasons AS text[]), CAST(:delays AS double precision[]),
        CAST(:durations AS double precision[]), CAST(:metas AS text[])
    ),
    CAST(:tracebacks AS text[]),
    :worker,
    ROW(
        CAST(:queues AS text[]), CAST(:kinds AS text[]), CAST(:limited AS text[]),
        CAST(:limit AS integer), CAST(:lease AS double precision), CAST(:after AS integer),
        CAST(:lanes AS integer[]), CAST(:families AS integer[]), CAST(:owners AS text[]),
        CAST(:used AS integer[]), CAST(:priorities AS smallint[]),
        CAST(:ready_ats AS double precision[]), CAST(:last_seqs AS bigint[])
    )::holdfast.claim_request,
    :timeout, :now
);

-- name: finish_late
SELECT holdfast.keep_late_result(
    holdfast.job_of(:id), :token, :result, holdfast.time_of(:now)
);

-- The next three run in a handler's transaction, on a connection that may be the caller's own. So all
-- parameters have casts, and bigint is given as text, since a caller's connection may write it as a
-- type of its own.

-- Which transaction it is, and whether the attempt still holds its lease.
-- name: transaction_lease
SELECT
    CAST(pg_current_xact_id() AS text),
    current_setting('transaction_isolation'),
    EXISTS (
        SELECT
        FROM holdfast.jobs
        WHERE seq = holdfast.job_of(CAST(:id AS text))
            AND status = 'processing'
            AND token = CAST(CAST(:token AS text) AS bigint)
            AND worker_id = CAST(:worker AS text)
    );

-- Which transaction it is, and for the rest of it the settings that our statements are planned for.
-- name: transaction_check
SELECT
    CAST(pg_current_xact_id() AS text),
    set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('plan_cache_mode', 'force_generic_plan', true), set_config('jit', 'off', true);

-- A completion, as a tick reports it.
-- name: transaction_complete
SELECT what, at
FROM holdfast.report_and_claim(
    CAST(:names AS text[]), CAST(CAST(:versions AS text[]) AS bigint[]),
    CAST(
        ROW(
            ARRAY[holdfast.job_of(CAST(:id AS text))], ARRAY[CAST(:id AS text)],
            ARRAY[CAST(CAST(:token AS text) AS bigint)], ARRAY[CAST(:worker AS text)],
            ARRAY['complete'], ARRAY[CAST(:result AS text)], NULL, NULL, NULL, NULL, NULL,
            ARRAY[CAST(:duration AS double precision)], ARRAY[CAST(:meta AS text)]
        ) AS holdfast.reports
    ),
    CAST(NULL AS text[]), CAST(:worker AS text), CAST(NULL AS holdfast.claim_request), CAST(:timeout AS text[]),
    CAST(:now AS double precision)
);

-- name: dead_letters_none
SELECT kind FROM holdfast.kinds_without_dead_letters;

-- name: dead_letters_stop
INSERT INTO holdfast.kinds_without_dead_letters (kind) VALUES (:kind) ON CONFLICT DO NOTHING;

-- name: dead_letters_allow
DELETE FROM holdfast.kinds_without_dead_letters WHERE kind = :kind;
