-- How far each job is, for queries that join it with tables of an app. `job_id` is not called `id`, so
-- that it stands beside the app's own columns. By holdfast.ids, which has the index of ids.
CREATE VIEW holdfast.job_states AS
SELECT
    ids.id AS job_id, jobs.kind, jobs.status::text AS status, jobs.attempt_count, jobs.max_attempts,
    jobs.token, jobs.ready_at, jobs.last_attempt_at, jobs.finished_at, jobs.cancel_requested,
    jobs.progress, jobs.progress_note, jobs.error_code, jobs.error_message
FROM holdfast.ids
JOIN holdfast.jobs ON jobs.seq = ids.job;
