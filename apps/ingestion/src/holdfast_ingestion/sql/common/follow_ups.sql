-- name: first_chunk
SELECT id FROM {{chunks}} WHERE document = :document ORDER BY position LIMIT 1
