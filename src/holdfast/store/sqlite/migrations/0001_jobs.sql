-- The durable job engine: lanes, jobs, their history, downstreams, leadership, counters.
-- Times are epoch seconds; JSON is text. Constraints, triggers and partial indexes are written
-- without IN: building its list for every row would cost more than the write itself.

-- One row a (queue, downstream, kind), with how many jobs stand where. A lane of the documentation
-- is all rows of one (queue, downstream); the kinds are kept apart so that one at its limit, or
-- unknown to a worker, is passed over without looking at its jobs. '' is "no downstream".
CREATE TABLE lanes (
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

-- What a claim looks at: lanes with something to take, the one served longest ago first. The rows
-- of one (queue, downstream) share `served`, so they stand together here.
CREATE INDEX lanes_eligible ON lanes (queue, served, downstream) WHERE ready > 0 AND held = 0;
CREATE INDEX lanes_by_downstream ON lanes (downstream);
CREATE INDEX lanes_running ON lanes (kind, downstream, processing) WHERE processing > 0;

CREATE TABLE jobs (
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
CREATE INDEX jobs_ready ON jobs (lane, priority DESC, ready_at) WHERE ready = 1;
CREATE INDEX jobs_due ON jobs (ready_at) WHERE status = 'queued' AND ready = 0;
CREATE INDEX jobs_leased ON jobs (lease_expires_at) WHERE lease_expires_at IS NOT NULL;
CREATE INDEX jobs_deadline ON jobs (deadline_at)
    WHERE deadline_at IS NOT NULL AND finished_at IS NULL;
CREATE INDEX jobs_trials ON jobs (lane) WHERE permit_trial IS NOT NULL;
CREATE INDEX jobs_unfinished ON jobs (seq) WHERE finished_at IS NULL;
-- Cold: written once when a job finishes, read by retention and pages.
CREATE INDEX jobs_finished ON jobs (kind, status, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX jobs_ended_badly ON jobs (seq) WHERE status = 'failed' OR status = 'cancelled';
CREATE INDEX jobs_dead ON jobs (finished_at) WHERE dead_letter IS NOT NULL;
CREATE INDEX jobs_dead_groups ON jobs (kind, error_code, error_group, finished_at)
    WHERE dead_letter IS NOT NULL;
CREATE INDEX jobs_of_kind ON jobs (kind);
CREATE INDEX jobs_owned ON jobs (owner) WHERE owner IS NOT NULL;
-- A twin is a job with the same key that is unfinished or complete.
CREATE UNIQUE INDEX jobs_dedup ON jobs (kind, dedup_key)
    WHERE dedup_key IS NOT NULL AND status <> 'failed' AND status <> 'cancelled';

-- The table of legal moves, the same as holdfast.jobs.model.MOVES.
CREATE TRIGGER jobs_are_born BEFORE INSERT ON jobs
WHEN NEW.status NOT IN ('uploaded', 'queued')
BEGIN
    SELECT RAISE(ABORT, 'illegal move: a job is created uploaded or queued');
END;
CREATE TRIGGER jobs_move AFTER UPDATE OF status, token ON jobs
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

-- Apart from the row that every move rewrites: arguments are written once and read once.
CREATE TABLE job_arguments (
    job       INTEGER PRIMARY KEY,
    arguments TEXT NOT NULL
) STRICT;

-- History, append-only. The line that ends an attempt carries all there is to say of it, from
-- `token` on, and only that one has a token: so there is one a token. The attempt under way is the
-- job's own row.
CREATE TABLE events (
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
CREATE UNIQUE INDEX events_of_job ON events (job, token);

CREATE TRIGGER events_are_history BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'history is append-only');
END;

CREATE TABLE late_results (
    job         INTEGER NOT NULL,
    token       INTEGER NOT NULL,
    received_at REAL    NOT NULL,
    result      TEXT,
    PRIMARY KEY (job, token)
) STRICT, WITHOUT ROWID;

CREATE TABLE downstreams (
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
CREATE INDEX downstreams_cooling ON downstreams (open_until)
    WHERE lanes_held = 1 AND open_until IS NOT NULL;

CREATE TABLE rate_spent (
    downstream TEXT    NOT NULL,
    width      REAL    NOT NULL,
    bucket     INTEGER NOT NULL,
    spent      INTEGER NOT NULL,
    PRIMARY KEY (downstream, width, bucket)
) STRICT, WITHOUT ROWID;

CREATE TABLE leaders (
    name       TEXT    PRIMARY KEY,
    holder     TEXT    NOT NULL,
    term       INTEGER NOT NULL,
    expires_at REAL    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE totals (
    name  TEXT    PRIMARY KEY,
    count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE outcome_counts (
    kind     TEXT    NOT NULL,
    status   TEXT    NOT NULL,
    attempts INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    PRIMARY KEY (kind, status, attempts)
) STRICT, WITHOUT ROWID;

CREATE TABLE dead_letter_groups (
    kind    TEXT    NOT NULL,
    code    TEXT    NOT NULL,
    message TEXT    NOT NULL,
    count   INTEGER NOT NULL CHECK (count >= 0),
    PRIMARY KEY (kind, code, message)
) STRICT, WITHOUT ROWID;
