-- Failures can be seen.

-- The traceback of a failed attempt, shortened by the worker.
ALTER TABLE holdfast_events ADD COLUMN traceback TEXT;
-- The kinds that a worker can run, a JSON array; NULL for a worker of the release before.
ALTER TABLE holdfast_workers ADD COLUMN kinds TEXT;
