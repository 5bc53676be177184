-- The durable job engine: lanes, jobs, their history, downstreams, leadership, counters. Every name
-- begins with holdfast_, since the file may hold the caller's own tables as well.
-- Times are epoch seconds; JSON is text. Constraints, triggers and partial indexes are written
-- without IN: building its list for every row would cost more than the write itself.

-- One row per (queue, downstream, kind), with the number of its jobs in each place. A lane is all
-- rows of one (queue, downstream); the kinds are kept apart so that a kind at its limit, or unknown
-- to a worker, is skipped without reading its jobs. '' means no downstream.
CREATE TABLE holdfast_lanes (
    id          INTEGER PRIMARY KEY,
    queue       TEXT    NOT NULL,
    downstream  TEXT    NOT NULL DEFAULT '',
    kind        TEXT    NOT NULL,
    held        INTEGER NOT NULL DEFAULT 0 CHECK (held IN (0, 1)),
    served      INTEGER NOT NULL DEFAULT 0,
    uploaded    INTEGER NOT NULL DEFAULT 0 CHECK (uploaded >= 0),
    scheduled   INTEGER NOT NULL DEFAULT 0 CHECK (scheduled >= 0),
    ready       INTEGER NOT NULL DEFAULT 0 CHECK (ready >= 0),
    processing  INTEGER NOT NULL DEFAULT 0 CHECK (processing >= 0),
    complete    INTEGER NOT NULL DEFAULT 0 CHECK (complete >= 0),
    failed      INTEGER NOT NULL DEFAULT 0 CHECK (failed >= 0),
    cancelled   INTEGER NOT NULL DEFAULT 0 CHECK (cancelled >= 0),
    UNIQUE (queue, downstream, kind)
) STRICT;

-- What a claim reads: lanes with ready jobs, the one served longest ago first. The rows of one
-- (queue, downstream) share `served`, so the index keeps them together.
CREATE INDEX holdfast_lanes_eligible ON holdfast_lanes (queue, served, downstream) WHERE ready > 0 AND held = 0;
CREATE INDEX holdfast_lanes_by_downstream ON holdfast_lanes (downstream);
CREATE INDEX holdfast_lanes_running ON holdfast_lanes (kind, downstream, processing) WHERE processing > 0;

CREATE TABLE holdfast_jobs (
    seq                INTEGER PRIMARY KEY AUTOINCREMENT,
    id                 TEXT    NOT NULL UNIQUE,
    lane               INTEGER NOT NULL,
    kind               TEXT    NOT NULL,
    status             TEXT    NOT NULL,
    ready              INTEGER NOT NULL DEFAULT 0,
    priority           INTEGER NOT NULL DEFAULT 0,
    ready_at           REAL,
    attempt_count      INTEGER NOT NULL DEFAULT 0,
    max_attempts       INTEGER NOT NULL,
    manual_retry_count INTEGER NOT NULL DEFAULT 0,
    token              INTEGER NOT NULL DEFAULT 0,
    created_at         REAL    NOT NULL,
    queued_at          REAL,
    started_at         REAL,
    last_attempt_at    REAL,
    finished_at        REAL,
    deadline_at        REAL,
    worker_id          TEXT,
    lease_expires_at   REAL,
    cancel_requested   INTEGER NOT NULL DEFAULT 0,
    permit_generation  INTEGER,
    permit_trial       INTEGER,
    progress           REAL,
    progress_note      TEXT,
    dedup_key          TEXT,
    owner              TEXT,
    meta               TEXT,
    error_code         TEXT,
    error_message      TEXT,
    error_group        TEXT,
    dead_letter        TEXT,
    result             TEXT,
    CONSTRAINT status_is_known CHECK (
        status = 'queued' OR status = 'processing' OR status = 'complete'
        OR status = 'uploaded' OR status = 'failed' OR status = 'cancelled'
    ),
    CONSTRAINT result_only_when_complete CHECK (result IS NULL OR status = 'complete'),
    CONSTRAINT error_only_when_failed CHECK ((error_code IS NOT NULL) = (status = 'failed')),
    CONSTRAINT error_is_whole CHECK (
        (error_code IS NULL) = (error_message IS NULL)
        AND (error_code IS NULL) = (error_group IS NULL)
    ),
    CONSTRAINT dead_letter_only_when_failed CHECK (dead_letter IS NULL OR status = 'failed'),
    CONSTRAINT lease_only_when_processing CHECK (
        (lease_expires_at IS NOT NULL) = (status = 'processing')
        AND (worker_id IS NOT NULL) = (status = 'processing')
    ),
    CONSTRAINT permit_only_when_processing CHECK (
        permit_generation IS NULL OR status = 'processing'
    ),
    CONSTRAINT finished_at_only_when_finished CHECK (
        (finished_at IS NOT NULL)
        = (status = 'complete' OR status = 'failed' OR status = 'cancelled')
    ),
    CONSTRAINT ready_only_when_queued CHECK (ready = 0 OR (ready = 1 AND status = 'queued')),
    CONSTRAINT attempts_are_counted CHECK (
        max_attempts >= 1 AND attempt_count >= 0 AND attempt_count <= max_attempts
    ),
    CONSTRAINT an_attempt_has_a_token CHECK (
        token >= 0 AND (status <> 'processing' OR (token >= 1 AND attempt_count >= 1))
    ),
    CONSTRAINT progress_is_a_share CHECK (progress IS NULL OR progress BETWEEN 0 AND 1)
) STRICT;

-- Hot, and small for as long as work flows: each holds only rows in that state.
CREATE INDEX holdfast_jobs_ready ON holdfast_jobs (lane, priority DESC, ready_at) WHERE ready = 1;
CREATE INDEX holdfast_jobs_due ON holdfast_jobs (ready_at) WHERE status = 'queued' AND ready = 0;
CREATE INDEX holdfast_jobs_leased ON holdfast_jobs (lease_expires_at) WHERE lease_expires_at IS NOT NULL;
CREATE INDEX holdfast_jobs_deadline ON holdfast_jobs (deadline_at)
    WHERE deadline_at IS NOT NULL AND finished_at IS NULL;
CREATE INDEX holdfast_jobs_trials ON holdfast_jobs (lane) WHERE permit_trial IS NOT NULL;
CREATE INDEX holdfast_jobs_unfinished ON holdfast_jobs (seq) WHERE finished_at IS NULL;
-- Cold: written once when a job finishes, read by retention and pages.
CREATE INDEX holdfast_jobs_finished ON holdfast_jobs (kind, status, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX holdfast_jobs_ended_badly ON holdfast_jobs (seq) WHERE status = 'failed' OR status = 'cancelled';
CREATE INDEX holdfast_jobs_dead ON holdfast_jobs (finished_at) WHERE dead_letter IS NOT NULL;
CREATE INDEX holdfast_jobs_dead_groups ON holdfast_jobs (kind, error_code, error_group, finished_at)
    WHERE dead_letter IS NOT NULL;
CREATE INDEX holdfast_jobs_of_kind ON holdfast_jobs (kind);
CREATE INDEX holdfast_jobs_owned ON holdfast_jobs (owner) WHERE owner IS NOT NULL;
-- A twin is a job with the same key that is unfinished or complete.
CREATE UNIQUE INDEX holdfast_jobs_dedup ON holdfast_jobs (kind, dedup_key)
    WHERE dedup_key IS NOT NULL AND status <> 'failed' AND status <> 'cancelled';

-- The table of legal moves, the same as holdfast.jobs.model.MOVES.
CREATE TRIGGER holdfast_jobs_are_born BEFORE INSERT ON holdfast_jobs
WHEN NEW.status NOT IN ('uploaded', 'queued')
BEGIN
    SELECT RAISE(ABORT, 'illegal move: a job is created uploaded or queued');
END;
CREATE TRIGGER holdfast_jobs_move AFTER UPDATE OF status, token ON holdfast_jobs
WHEN NEW.token < OLD.token OR NEW.status <> OLD.status AND NOT (
    OLD.status = 'queued' AND (
        NEW.status = 'processing' OR NEW.status = 'failed' OR NEW.status = 'cancelled'
    )
    OR OLD.status = 'processing' AND (
        NEW.status = 'complete' OR NEW.status = 'queued'
        OR NEW.status = 'failed' OR NEW.status = 'cancelled'
    )
    OR OLD.status = 'uploaded' AND (
        NEW.status = 'queued' OR NEW.status = 'failed' OR NEW.status = 'cancelled'
    )
    OR OLD.status = 'failed' AND NEW.status = 'queued'
)
BEGIN
    SELECT RAISE(ABORT, 'illegal move: not in the table of legal moves, or the token falls');
END;

-- Not in the job's row, which every move rewrites: arguments are written once and read once.
CREATE TABLE holdfast_job_arguments (
    job       INTEGER PRIMARY KEY,
    arguments TEXT NOT NULL
) STRICT;

-- History, append-only. The row that ends an attempt describes it in the columns from `token` on; no
-- other row has a token, so there is one row per token. A running attempt is in the job's own row.
CREATE TABLE holdfast_events (
    sequence      INTEGER PRIMARY KEY AUTOINCREMENT,
    job           INTEGER NOT NULL,
    name          TEXT    NOT NULL,
    at            REAL    NOT NULL,
    attempt       INTEGER NOT NULL,
    error_code    TEXT,
    meta          TEXT,
    token         INTEGER,
    outcome       TEXT,
    worker_id     TEXT,
    started_at    REAL,
    duration      REAL,
    error_message TEXT,
    retry_after   REAL,
    CONSTRAINT outcome_is_known CHECK (
        outcome IS NULL OR outcome = 'complete' OR outcome = 'retry' OR outcome = 'failed'
        OR outcome = 'released' OR outcome = 'cancelled' OR outcome = 'lease_lost'
        OR outcome = 'timeout'
    ),
    CONSTRAINT an_attempt_is_whole CHECK (
        CASE WHEN token IS NULL THEN outcome IS NULL ELSE
            outcome IS NOT NULL AND worker_id IS NOT NULL AND started_at IS NOT NULL
            AND duration IS NOT NULL
        END
    )
) STRICT;
CREATE UNIQUE INDEX holdfast_events_of_job ON holdfast_events (job, token);

CREATE TRIGGER holdfast_events_are_history BEFORE UPDATE ON holdfast_events
BEGIN
    SELECT RAISE(ABORT, 'history is append-only');
END;

CREATE TABLE holdfast_late_results (
    job         INTEGER NOT NULL,
    token       INTEGER NOT NULL,
    received_at REAL    NOT NULL,
    result      TEXT,
    PRIMARY KEY (job, token)
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_downstreams (
    name       TEXT    PRIMARY KEY,
    version    INTEGER NOT NULL,
    state      TEXT    NOT NULL CHECK (state IN ('CLOSED', 'OPEN', 'HALF_OPEN')),
    generation INTEGER NOT NULL,
    open_until REAL,
    lanes_held INTEGER NOT NULL DEFAULT 0 CHECK (lanes_held IN (0, 1)),
    settings   TEXT    NOT NULL,
    record     TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
-- Those whose lanes are marked as held until a time; a claim asks which of them to let go.
CREATE INDEX holdfast_downstreams_cooling ON holdfast_downstreams (open_until)
    WHERE lanes_held = 1 AND open_until IS NOT NULL;

CREATE TABLE holdfast_rate_spent (
    downstream TEXT    NOT NULL,
    width      REAL    NOT NULL,
    bucket     INTEGER NOT NULL,
    spent      INTEGER NOT NULL,
    PRIMARY KEY (downstream, width, bucket)
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_leaders (
    name       TEXT    PRIMARY KEY,
    holder     TEXT    NOT NULL,
    term       INTEGER NOT NULL,
    expires_at REAL    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_totals (
    name  TEXT    PRIMARY KEY,
    count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_outcome_counts (
    kind     TEXT    NOT NULL,
    status   TEXT    NOT NULL,
    attempts INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    PRIMARY KEY (kind, status, attempts)
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_dead_letter_groups (
    kind    TEXT    NOT NULL,
    code    TEXT    NOT NULL,
    message TEXT    NOT NULL,
    count   INTEGER NOT NULL CHECK (count >= 0),
    PRIMARY KEY (kind, code, message)
) STRICT, WITHOUT ROWID;

-- For people: jobs and attempts with ISO 8601 times in UTC, under the names of the Python model.
CREATE VIEW holdfast_jobs_readable AS
SELECT
    jobs.id, jobs.kind, lanes.queue, nullif(lanes.downstream, '') AS downstream, jobs.status,
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

CREATE VIEW holdfast_attempts_readable AS
SELECT
    jobs.id AS job_id, events.attempt AS number, events.worker_id,
    strftime('%FT%TZ', events.started_at, 'unixepoch') AS started_at,
    strftime('%FT%TZ', events.at, 'unixepoch') AS finished_at,
    events.duration, events.outcome, events.error_code, events.error_message, events.retry_after,
    events.meta
FROM holdfast_events AS events
JOIN holdfast_jobs AS jobs ON jobs.seq = events.job
WHERE events.token IS NOT NULL
UNION ALL
SELECT
    id, attempt_count, worker_id, strftime('%FT%TZ', last_attempt_at, 'unixepoch'), NULL, NULL,
    NULL, NULL, NULL, NULL, NULL
FROM holdfast_jobs
WHERE status = 'processing';
