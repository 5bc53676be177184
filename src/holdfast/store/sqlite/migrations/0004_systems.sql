-- Tables of apps.

-- What was applied of each app's own migrations, with the SHA-256 of its text.
CREATE TABLE holdfast_app_migrations (
    app        TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    checksum   TEXT    NOT NULL,
    applied_at TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ')),
    PRIMARY KEY (app, version)
) STRICT, WITHOUT ROWID;

-- API keys: only the SHA-256 of each secret is stored, see jobs/client/api_keys.py.
CREATE TABLE holdfast_api_keys (
    id           TEXT PRIMARY KEY,
    secret_hash  TEXT NOT NULL UNIQUE,
    hint         TEXT NOT NULL,
    name         TEXT NOT NULL,
    owner        TEXT NOT NULL,
    organisation TEXT NOT NULL,
    created_at   REAL NOT NULL,
    revoked_at   REAL
) STRICT, WITHOUT ROWID;

-- How far each job is, for queries that join it with tables of an app. `job_id` is not called `id`, so
-- that it stands beside the app's own columns.
CREATE VIEW holdfast_job_states AS
SELECT
    id AS job_id, kind, status, attempt_count, max_attempts, token, ready_at, last_attempt_at,
    finished_at, cancel_requested, progress, progress_note, error_code, error_message
FROM holdfast_jobs;

-- Rates that all processes share, see jobs/rate_port.py.

-- `given` counts the starts that were given out, `kept` says how many of the last ones are kept.
CREATE TABLE holdfast_rates (
    name       TEXT    PRIMARY KEY,
    given      INTEGER NOT NULL,
    last_start REAL    NOT NULL,
    kept       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- The last starts of each rate, numbered without gaps.
CREATE TABLE holdfast_rate_starts (
    name     TEXT    NOT NULL,
    number   INTEGER NOT NULL,
    start_at REAL    NOT NULL,
    PRIMARY KEY (name, number)
) STRICT, WITHOUT ROWID;

-- The outbox and the inbox.

-- Messages that were committed with their callers' rows, see OutboxMessage in outbox/model.py. The order is
-- that of `seq`. `delayed` is set until `due_at`, when the message takes its place in the order; until then it
-- holds back no other. `claimable_at` is NULL for a message that can be claimed at once; otherwise it is leased
-- to a relay, or waits for its retry, until then. Every claim raises `token`. `headers` is a JSON object.
CREATE TABLE holdfast_outbox (
    seq           INTEGER PRIMARY KEY,
    id            TEXT    NOT NULL UNIQUE,
    aggregate_id  TEXT    NOT NULL,
    message_type  TEXT    NOT NULL,
    payload       TEXT    NOT NULL,
    headers       TEXT,
    status        TEXT    NOT NULL DEFAULT 'pending'
        CHECK (status = 'pending' OR status = 'published' OR status = 'failed'),
    retry_count   INTEGER NOT NULL DEFAULT 0,
    error_message TEXT,
    created_at    REAL    NOT NULL,
    due_at        REAL    NOT NULL,
    delayed       INTEGER NOT NULL DEFAULT 0 CHECK (delayed IN (0, 1)),
    processed_at  REAL,
    claimable_at  REAL,
    token         INTEGER NOT NULL DEFAULT 0,
    CHECK ((status = 'pending') = (processed_at IS NULL)),
    CHECK (status = 'pending' OR claimable_at IS NULL),
    CHECK (delayed = 0 OR (status = 'pending' AND claimable_at IS NULL)),
    CHECK (status <> 'failed' OR error_message IS NOT NULL)
) STRICT;
CREATE INDEX holdfast_outbox_ready ON holdfast_outbox (seq)
WHERE status = 'pending' AND claimable_at IS NULL AND delayed = 0;
CREATE INDEX holdfast_outbox_delayed ON holdfast_outbox (due_at) WHERE delayed = 1;
CREATE INDEX holdfast_outbox_waiting ON holdfast_outbox (claimable_at)
WHERE status = 'pending' AND claimable_at IS NOT NULL;
CREATE INDEX holdfast_outbox_failed ON holdfast_outbox (id) WHERE status = 'failed';
CREATE INDEX holdfast_outbox_published ON holdfast_outbox (processed_at) WHERE status = 'published';

-- The request ids that each consumer has handled.
CREATE TABLE holdfast_inbox (
    consumer   TEXT NOT NULL,
    request_id TEXT NOT NULL,
    handled_at REAL NOT NULL,
    PRIMARY KEY (consumer, request_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_inbox_by_age ON holdfast_inbox (handled_at);

-- Requests that a consumer has begun and not finished, see RequestClaim in outbox/handling.py. `leased_until`
-- is set while a delivery runs. `round` rises with every message that replaces the one before it.
CREATE TABLE holdfast_handling (
    consumer     TEXT    NOT NULL,
    request_id   TEXT    NOT NULL,
    round        INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    token        INTEGER NOT NULL,
    dead         INTEGER NOT NULL DEFAULT 0 CHECK (dead IN (0, 1)),
    leased_until REAL,
    updated_at   REAL    NOT NULL,
    PRIMARY KEY (consumer, request_id),
    CHECK (dead = 0 OR leased_until IS NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_handling_by_age ON holdfast_handling (updated_at);
-- Those that run; read when the clock jumps.
CREATE INDEX holdfast_handling_running ON holdfast_handling (leased_until) WHERE leased_until IS NOT NULL;

-- The breakers that are not closed, among those of thousands of hosts.
CREATE INDEX holdfast_downstreams_troubled ON holdfast_downstreams (name) WHERE state <> 'CLOSED';

-- How far each message is, for queries that join it with tables of an app. `message_id` is not called `id`,
-- so that it stands beside the app's own columns. Published messages are deleted after a while.
CREATE VIEW holdfast_message_states AS
SELECT id AS message_id, aggregate_id, message_type, status, retry_count, processed_at
FROM holdfast_outbox;
