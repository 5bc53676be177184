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
