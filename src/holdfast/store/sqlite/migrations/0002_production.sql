-- Whether jobs are held, in one place: until `held_until`. `lanes_held` is written with the record, by
-- DownstreamRecord.holds_at. 9e999 is infinity.
ALTER TABLE holdfast_downstreams ADD COLUMN held_until REAL GENERATED ALWAYS AS (
    CASE WHEN lanes_held = 1 THEN coalesce(open_until, 9e999) END
) VIRTUAL;
DROP VIEW holdfast_jobs_readable;
CREATE VIEW holdfast_jobs_readable AS
SELECT
    jobs.id, jobs.kind, lanes.queue, nullif(lanes.downstream, '') AS downstream, jobs.status,
    jobs.status = 'queued' AND jobs.ready_at <= unixepoch('subsec') AND EXISTS (
        SELECT 1 FROM holdfast_downstreams AS downstreams
        WHERE downstreams.name = lanes.downstream AND downstreams.held_until > unixepoch('subsec')
    ) AS held,
    jobs.priority, jobs.attempt_count, jobs.max_attempts, jobs.manual_retry_count,
    strftime('%FT%TZ', jobs.created_at, 'unixepoch') AS created_at,
    strftime('%FT%TZ', jobs.queued_at, 'unixepoch') AS queued_at,
    strftime('%FT%TZ', jobs.ready_at, 'unixepoch') AS ready_at,
    strftime('%FT%TZ', jobs.started_at, 'unixepoch') AS started_at,
    strftime('%FT%TZ', jobs.last_attempt_at, 'unixepoch') AS last_attempt_at,
    strftime('%FT%TZ', jobs.finished_at, 'unixepoch') AS finished_at,
    strftime('%FT%TZ', jobs.deadline_at, 'unixepoch') AS deadline_at,
    jobs.worker_id, strftime('%FT%TZ', jobs.lease_expires_at, 'unixepoch') AS lease_expires_at,
    jobs.cancel_requested, jobs.progress, jobs.progress_note, jobs.owner, jobs.dedup_key,
    jobs.error_code, jobs.error_message, jobs.dead_letter, jobs.meta, job_arguments.arguments,
    jobs.result
FROM holdfast_jobs AS jobs
JOIN holdfast_lanes AS lanes ON lanes.id = jobs.lane
JOIN holdfast_job_arguments AS job_arguments ON job_arguments.job = jobs.seq;

-- Ready jobs by owner, so that a claim can go round the owners who wait in a lane.
CREATE INDEX holdfast_jobs_ready_by_owner
    ON holdfast_jobs (lane, priority DESC, coalesce(owner, ''), ready_at)
    WHERE ready = 1;
DROP INDEX holdfast_jobs_ready;

-- Workers and the processes they run in, so that the operating system can say whether they live.
-- `boot` and `namespace` say where a process id means something, `started` is when the process started
-- in ticks since that boot. `seen_at` is when the worker last registered, which it does again and again.
CREATE TABLE holdfast_workers (
    id        TEXT    PRIMARY KEY,
    boot      TEXT    NOT NULL,
    namespace TEXT    NOT NULL,
    pid       INTEGER NOT NULL,
    started   INTEGER NOT NULL,
    seen_at   REAL    NOT NULL
) STRICT, WITHOUT ROWID;
-- One row: how far the wall clock was ahead of the monotonic clock of that boot, in seconds, when
-- leases were last written or judged.
CREATE TABLE holdfast_clock (
    id           INTEGER PRIMARY KEY CHECK (id = 1),
    boot         TEXT    NOT NULL,
    clock_offset REAL    NOT NULL
) STRICT;
-- Running jobs that someone asked to cancel: workers look for theirs twice a second. Not an index of
-- the jobs, which would be filled while writes are blocked.
CREATE TABLE holdfast_cancel_requests (
    worker_id TEXT    NOT NULL,
    job       INTEGER NOT NULL,
    PRIMARY KEY (worker_id, job)
) STRICT, WITHOUT ROWID;
