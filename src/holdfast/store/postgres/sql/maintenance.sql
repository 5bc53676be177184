-- Maintenance; the functions are in functions/.

-- name: maintain_lead
SELECT term, expires_at FROM holdfast.lead(:name, :holder, :seconds, :now);

-- name: maintain_resign
UPDATE holdfast.leaders SET expires_at = 0
WHERE name = :name AND holder = :holder AND expires_at > 0
RETURNING term;

-- name: maintain_rescue
SELECT id, target FROM holdfast.rescue(:limit, :error, :now);

-- name: maintain_expire_deadlines
SELECT holdfast.expire_deadlines(:limit, :timeout, :now);

-- name: maintain_delete_finished
SELECT id, owner, meta, result
FROM holdfast.delete_finished(:kind, :status, :max_age, :max_count, :limit, :now);
