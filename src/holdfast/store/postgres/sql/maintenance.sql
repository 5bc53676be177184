-- Maintenance; the functions are in functions/.

-- name: maintain_lead
SELECT term, expires_at FROM holdfast.lead(:name, :holder, :seconds, :now);

-- name: maintain_resign
UPDATE holdfast.leaders SET expires_at = 0
WHERE name = :name AND holder = :holder AND expires_at > 0
RETURNING term;

-- name: maintain_rescue
SELECT
    rescued.id, rescued.target, jobs.kind, jobs.attempt_count, jobs.max_attempts, jobs.owner,
    holdfast.has_dead_letters(jobs.kind)
FROM holdfast.rescue(:limit, :error, :now) AS rescued
LEFT JOIN holdfast.jobs ON jobs.seq = holdfast.job_of(rescued.id);

-- name: maintain_expire_deadlines
SELECT
    expired.id, jobs.kind, jobs.attempt_count, jobs.max_attempts, jobs.owner,
    holdfast.has_dead_letters(jobs.kind)
FROM holdfast.expire_deadlines(:limit, :timeout, :now) AS expired (id)
LEFT JOIN holdfast.jobs ON jobs.seq = holdfast.job_of(expired.id);

-- name: maintain_delete_finished
SELECT id, owner, meta, result
FROM holdfast.delete_finished(:kind, :status, :max_age, :max_count, :limit, :now);

-- name: maintain_delete_of_ids
SELECT id, kind, status, owner, meta, result FROM holdfast.delete_of_ids(:ids);

-- Kinds of waiting jobs that no registered worker knows. None if the worker that asks is not registered
-- itself, as behind a pooler, or if a worker does not say what it knows: then others may know them.
-- name: maintain_unknown_kinds
SELECT counted.kind, sum(counted.n)::bigint AS waiting
FROM (
    SELECT a AS kind, count AS n
    FROM holdfast.counters
    WHERE family = 'kind' AND b IN ('ready', 'scheduled')
    UNION ALL
    SELECT lanes.kind, deltas.delta
    FROM holdfast.counter_deltas AS deltas
    JOIN holdfast.lanes ON lanes.id = CASE deltas.family WHEN 'lane' THEN deltas.a::integer END
    WHERE deltas.family = 'lane' AND deltas.b IN ('ready', 'scheduled')
) AS counted
WHERE EXISTS (SELECT FROM holdfast.workers WHERE id = :worker)
    AND NOT EXISTS (SELECT FROM holdfast.workers WHERE kinds IS NULL)
    AND NOT EXISTS (SELECT FROM holdfast.workers WHERE counted.kind = ANY (kinds))
GROUP BY counted.kind
HAVING sum(counted.n) > 0
ORDER BY counted.kind;
