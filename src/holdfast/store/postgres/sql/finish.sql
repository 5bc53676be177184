-- A worker's tick, in one round trip. The functions are in the migrations.

-- name: tick
SELECT *
FROM holdfast.tick(
    CAST(:names AS text[]), CAST(:versions AS bigint[]),
    :seqs, :ids, :tokens, :workers, :outcomes, :results, :codes, :messages, :groups, :reasons,
    :afters, :durations, :metas,
    :worker, :queues, :kinds, :limited, :limit, :lease, :after, :timeout, :now
);

-- name: finish_late
SELECT holdfast.keep_late_result(
    (SELECT job FROM holdfast.ids WHERE id = :id), :token, :result, holdfast.time_of(:now)
);
