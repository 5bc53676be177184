-- fragment: key_columns
id, hint, name, owner, organisation, created_at, revoked_at

-- name: key_add
INSERT INTO holdfast_api_keys (id, secret_hash, hint, name, owner, organisation, created_at)
VALUES (:id, :secret_hash, :hint, :name, :owner, :organisation, :now);

-- name: key_list
SELECT {{key_columns}} FROM holdfast_api_keys ORDER BY created_at, id;

-- name: key_find
SELECT {{key_columns}} FROM holdfast_api_keys WHERE secret_hash = :secret_hash AND revoked_at IS NULL;

-- name: key_revoke
UPDATE holdfast_api_keys SET revoked_at = coalesce(revoked_at, :now) WHERE id = :id RETURNING id;
