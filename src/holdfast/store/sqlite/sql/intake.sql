-- name: intake_pause
INSERT INTO holdfast_intake_pause AS intake_pause (id, reason, paused_at) VALUES (1, :reason, :now)
ON CONFLICT (id) DO UPDATE SET reason = excluded.reason
RETURNING reason, paused_at;

-- name: intake_resume
DELETE FROM holdfast_intake_pause AS intake_pause RETURNING reason;

-- name: intake_state
SELECT reason, paused_at FROM holdfast_intake_pause AS intake_pause;
