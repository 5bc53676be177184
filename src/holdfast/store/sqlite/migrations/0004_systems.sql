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
