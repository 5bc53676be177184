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
SELECT holdfast.progress(:id, :token, :progress, :note, :meta, :now);

-- name: control_extend
SELECT id, token, cancel_requested FROM holdfast.extend(:ids, :tokens, :lease, :now);
