-- name: intake_pause
INSERT INTO holdfast.intake_pause (id, reason, paused_at)
VALUES (1, :reason, holdfast.time_of(:now))
ON CONFLICT (id) DO UPDATE SET reason = excluded.reason
RETURNING reason, paused_at;

-- name: intake_resume
DELETE FROM holdfast.intake_pause RETURNING reason;

-- name: intake_state
SELECT reason, paused_at FROM holdfast.intake_pause;
