-- Counters: deltas are appended, folded now and then, and read together.

-- name: count_read
SELECT family, a, b, c, sum(count)::bigint
FROM (
    SELECT family, a, b, c, count FROM holdfast.counters
    UNION ALL
    SELECT family, a, b, c, delta FROM holdfast.counter_deltas
) AS counted
GROUP BY family, a, b, c;

-- Does not wait for the disk: after a crash the deltas are folded again.
-- name: count_fold
SELECT set_config('synchronous_commit', 'off', true), holdfast.fold_counters();
