-- Changes that people and handlers ask for; see functions/control.sql.

-- name: control_submit
SELECT holdfast.leave_uploaded(:id, 'queued', NULL, :now);

-- name: control_reject
SELECT holdfast.leave_uploaded(:id, 'failed', :error, :now);

-- name: control_cancel
SELECT holdfast.cancel(:id, :now);

-- name: control_expedite
SELECT holdfast.expedite(:id, :now);

-- name: control_retry
SELECT holdfast.retry(:ids, :now);

-- name: control_discard
SELECT holdfast.discard(:ids, :now);

-- name: control_progress
SELECT holdfast.progress(:id, :token, :worker, :progress, :note, :meta, :now);

-- name: control_extend
SELECT id, token, cancel_requested FROM holdfast.extend(:ids, :tokens, :workers, :lease, :now);

-- name: pause_add
INSERT INTO holdfast.pauses (scope, name, paused_at)
SELECT :scope, given.name, moment.at
FROM unnest(CAST(:names AS text[])) AS given (name), holdfast.time_of(:now) AS moment (at)
ORDER BY given.name
ON CONFLICT DO NOTHING
RETURNING name;

-- name: pause_remove
DELETE FROM holdfast.pauses WHERE scope = :scope AND name = ANY (CAST(:names AS text[])) RETURNING name;

-- name: pause_list
SELECT scope, name, paused_at FROM holdfast.pauses ORDER BY scope, name;
