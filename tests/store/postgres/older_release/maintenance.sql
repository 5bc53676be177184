-- Maintenance; the functions are in functions/.

-- name: maintain_lead
INSERT INTO holdfast.leaders AS present (name, holder, term, expires_at)
SELECT :name, :holder, 1, now.at + :seconds
FROM holdfast.time_of(:now) AS now (at)
ON CONFLICT (name) DO UPDATE SET
    term = present.term + CASE
        WHEN present.holder <> excluded.holder
            OR present.expires_at <= excluded.expires_at - :seconds THEN 1
        ELSE 0
    END,
    holder = excluded.holder,
    expires_at = excluded.expires_at
WHERE present.holder = excluded.holder OR present.expires_at <= excluded.expires_at - :seconds
RETURNING term, expires_at;

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
