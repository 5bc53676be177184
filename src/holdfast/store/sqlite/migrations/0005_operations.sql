-- Intake.

-- One row while operators have paused the intake over HTTP, see jobs/intake_port.py.
CREATE TABLE holdfast_intake_pause (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    reason    TEXT    NOT NULL,
    paused_at REAL    NOT NULL
) STRICT;

-- Webhooks.

-- Addresses that are notified of the ends of jobs, see jobs/webhook_port.py. `owner` NULL is every owner's
-- jobs, `kinds` NULL all kinds; both lists are JSON arrays. Ends with a sequence up to `since` are older than it.
CREATE TABLE holdfast_webhooks (
    id         TEXT    PRIMARY KEY,
    url        TEXT    NOT NULL,
    owner      TEXT,
    kinds      TEXT,
    events     TEXT    NOT NULL,
    secret     TEXT    NOT NULL,
    since      INTEGER NOT NULL,
    created_at REAL    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_webhooks_of_owner ON holdfast_webhooks (owner) WHERE owner IS NOT NULL;
-- Up to which event deliveries are enqueued; one row.
CREATE TABLE holdfast_webhook_cursor (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    sequence INTEGER NOT NULL
) STRICT;

-- Operators: what they did, their runs over many dead letters, and counters over time.

-- The audit log, see AuditEntry in jobs/operations_port.py. `detail` is a JSON object.
CREATE TABLE holdfast_audit (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    at     REAL NOT NULL,
    who    TEXT NOT NULL,
    role   TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;

-- Runs over all dead letters that match a filter, see DeadLetterRun in jobs/operations_port.py. The process
-- that works on a run writes `updated_at` again and again, so an old one says that the process has died.
-- `filter` and `skipped` are JSON objects.
CREATE TABLE holdfast_dead_letter_runs (
    id             TEXT    PRIMARY KEY,
    action         TEXT    NOT NULL CHECK (action = 'requeue' OR action = 'discard'),
    filter         TEXT    NOT NULL,
    who            TEXT    NOT NULL,
    rate           REAL,
    total          INTEGER NOT NULL,
    state          TEXT    NOT NULL
        CHECK (state = 'running' OR state = 'finished' OR state = 'stopped' OR state = 'failed'),
    matched        INTEGER NOT NULL DEFAULT 0,
    done           INTEGER NOT NULL DEFAULT 0,
    skipped        TEXT    NOT NULL DEFAULT '{}',
    stop_requested INTEGER NOT NULL DEFAULT 0 CHECK (stop_requested IN (0, 1)),
    started_at     REAL    NOT NULL,
    updated_at     REAL    NOT NULL
) STRICT, WITHOUT ROWID;
-- One run at a time.
CREATE UNIQUE INDEX holdfast_dead_letter_runs_running ON holdfast_dead_letter_runs (state)
WHERE state = 'running';
CREATE INDEX holdfast_dead_letter_runs_by_age ON holdfast_dead_letter_runs (started_at);

-- The counters as they were at a time, see CounterMark in jobs/operations_port.py. JSON.
CREATE TABLE holdfast_counter_marks (
    at       REAL PRIMARY KEY,
    counters TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- When a worker registered first; NULL for one of the release before.
ALTER TABLE holdfast_workers ADD COLUMN registered_at REAL;

-- The outbox.

-- The messages of an aggregate, which are erased with their owner's rows.
CREATE INDEX holdfast_outbox_of_aggregate ON holdfast_outbox (aggregate_id);

-- Limits of owners.

-- Owners with limits of their own, see OwnerLimits in jobs/owner_limits.py. `rate` is a JSON object. NULL sets no
-- limit.
CREATE TABLE holdfast_owner_limits (
    owner         TEXT    PRIMARY KEY,
    concurrency   INTEGER CHECK (concurrency > 0),
    rate          TEXT,
    waiting       INTEGER CHECK (waiting > 0),
    storage_bytes INTEGER CHECK (storage_bytes > 0)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_owner_limits_of_claims ON holdfast_owner_limits (owner)
WHERE concurrency IS NOT NULL OR rate IS NOT NULL;
-- Jobs started in the time slices of rates of owners, as holdfast_rate_spent. `at` is the last start, in epoch
-- seconds, by which rows of owners who start no more are deleted.
CREATE TABLE holdfast_owner_starts (
    owner  TEXT    NOT NULL,
    width  REAL    NOT NULL,
    bucket INTEGER NOT NULL,
    spent  INTEGER NOT NULL,
    at     REAL    NOT NULL,
    PRIMARY KEY (owner, width, bucket)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_owner_starts_by_age ON holdfast_owner_starts (at);
CREATE INDEX holdfast_jobs_unfinished_of_owner ON holdfast_jobs (owner)
WHERE owner IS NOT NULL AND finished_at IS NULL;
