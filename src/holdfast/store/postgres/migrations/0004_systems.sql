-- Tables of apps.

-- What was applied of each app's own migrations, with the SHA-256 of its text.
CREATE TABLE holdfast.app_migrations (
    app        text        COLLATE "C" NOT NULL,
    version    integer     NOT NULL,
    name       text        NOT NULL,
    checksum   text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app, version)
);

-- API keys: only the SHA-256 of each secret is stored, see jobs/client/api_keys.py.
CREATE TABLE holdfast.api_keys (
    id           text COLLATE "C" PRIMARY KEY,
    secret_hash  text COLLATE "C" NOT NULL UNIQUE,
    hint         text NOT NULL,
    name         text NOT NULL,
    owner        text COLLATE "C" NOT NULL,
    organisation text COLLATE "C" NOT NULL,
    created_at   double precision NOT NULL,
    revoked_at   double precision
);

-- How far each job is, for queries that join it with tables of an app. `job_id` is not called `id`, so
-- that it stands beside the app's own columns. By holdfast.ids, which has the index of ids.
CREATE VIEW holdfast.job_states AS
SELECT
    ids.id AS job_id, jobs.kind, jobs.status::text AS status, jobs.attempt_count, jobs.max_attempts,
    jobs.token, jobs.ready_at, jobs.last_attempt_at, jobs.finished_at, jobs.cancel_requested,
    jobs.progress, jobs.progress_note, jobs.error_code, jobs.error_message
FROM holdfast.ids
JOIN holdfast.jobs ON jobs.seq = ids.job;

-- Rates that all processes share, see jobs/rate_port.py.

-- `given` counts the starts that were given out, `kept` says how many of the last ones are kept.
CREATE TABLE holdfast.rates (
    name       text   COLLATE "C" PRIMARY KEY,
    given      bigint NOT NULL DEFAULT 0,
    last_start double precision,
    kept       bigint NOT NULL
);
-- The last starts of each rate, numbered without gaps.
CREATE TABLE holdfast.rate_starts (
    name     text   COLLATE "C" NOT NULL,
    number   bigint NOT NULL,
    start_at double precision NOT NULL,
    PRIMARY KEY (name, number)
);
