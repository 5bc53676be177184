-- How far each job is, for queries that join it with tables of an app. `job_id` is not called `id`, so
-- that it stands beside the app's own columns.
CREATE VIEW holdfast_job_states AS
SELECT
    id AS job_id, kind, status, attempt_count, max_attempts, token, ready_at, last_attempt_at,
    finished_at, cancel_requested, progress, progress_note, error_code, error_message
FROM holdfast_jobs;
