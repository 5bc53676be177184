-- Counters: deltas are appended with what they count, folded now and then, and read together.

-- name: count_read
SELECT family, a, b, c, sum(count)::bigint
FROM (
    SELECT family, a, b, c, count FROM holdfast.counters
    UNION ALL
    SELECT family, a, b, c, delta FROM holdfast.counter_deltas
) AS counted
GROUP BY family, a, b, c;

-- What a crash undoes here is folded again later, so the disk is not waited for.
-- name: count_fold
SELECT set_config('synchronous_commit', 'off', true), holdfast.fold_counters();
