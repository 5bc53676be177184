-- Lanes, jobs, their history, downstreams, leadership, counters.
-- Times are epoch seconds of the database's clock; JSON is stored as text, unchanged. Indexed text
-- is compared byte by byte (COLLATE "C"), which is quicker than by the rules of a language.

-- One row per (queue, downstream, kind). A lane of the documentation is all rows of one (queue,
-- downstream); kinds have their own rows so that one at its limit, or unknown to a worker, is
-- skipped without reading its jobs. '' means no downstream. Rows are never changed or deleted, so
-- processes may cache them.
CREATE TABLE holdfast.lanes (
    id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue      text COLLATE "C" NOT NULL,
    downstream text COLLATE "C" NOT NULL DEFAULT '',
    kind       text COLLATE "C" NOT NULL,
    CONSTRAINT lanes_are_unique UNIQUE (queue, downstream, kind)
);
CREATE INDEX lanes_by_downstream ON holdfast.lanes (downstream);
CREATE INDEX lanes_by_kind ON holdfast.lanes (kind);

-- The id and owner of each job, written once. Not a unique index of holdfast.jobs: every change of
-- status adds an entry for the new version of the row to each index.
CREATE TABLE holdfast.ids (
    id    text   COLLATE "C" PRIMARY KEY,
    job   bigint NOT NULL,
    owner text   COLLATE "C"
);
CREATE INDEX ids_owned ON holdfast.ids (owner, job) WHERE owner IS NOT NULL;

-- The statuses of holdfast.jobs.model.JobStatus, those of finished jobs last; and how an attempt can
-- end.
CREATE TYPE holdfast.status AS ENUM (
    'uploaded', 'queued', 'processing', 'complete', 'failed', 'cancelled'
);
CREATE TYPE holdfast.outcome AS ENUM (
    'complete', 'retry', 'failed', 'released', 'cancelled', 'lease_lost', 'timeout'
);

-- One row per job. `last_event` is the newest page of its history, see holdfast.history. Columns of
-- fixed length that are never NULL come first: PostgreSQL reads those without parsing the row.
CREATE TABLE holdfast.jobs (
    -- The order of creation. The fillfactor leaves room for the entries of a claim and a completion
    -- beside that of the new job.
    seq                bigint   PRIMARY KEY WITH (fillfactor = 40),
    last_event         bigint   NOT NULL,
    token              bigint   NOT NULL DEFAULT 0,
    created_at         double precision NOT NULL,
    lane               integer  NOT NULL,
    status             holdfast.status NOT NULL,
    attempt_count      integer  NOT NULL DEFAULT 0,
    max_attempts       integer  NOT NULL,
    manual_retry_count integer  NOT NULL DEFAULT 0,
    priority           smallint NOT NULL DEFAULT 0,
    ready              boolean  NOT NULL DEFAULT false,
    cancel_requested   boolean  NOT NULL DEFAULT false,
    ready_at           double precision,
    lease_expires_at   double precision,
    finished_at        double precision,
    deadline_at        double precision,
    previous_event     bigint,
    queued_at          double precision,
    started_at         double precision,
    last_attempt_at    double precision,
    permit_generation  bigint,
    permit_trial       bigint,
    progress           double precision,
    id                 text     NOT NULL,
    kind               text     COLLATE "C" NOT NULL,
    arguments          text     NOT NULL,
    worker_id          text,
    progress_note      text,
    dedup_key          text     COLLATE "C",
    owner              text,
    meta               text,
    error_code         text     COLLATE "C",
    error_message      text,
    error_group        text     COLLATE "C",
    dead_letter        text,
    result             text,
    -- One short constraint: every statement that writes jobs parses it again.
    CONSTRAINT columns_fit_the_status CHECK (
        num_nonnulls(worker_id, lease_expires_at) = CASE status WHEN 'processing' THEN 2 ELSE 0 END
        AND (permit_generation IS NULL OR worker_id IS NOT NULL)
        AND (worker_id IS NULL OR (token >= 1 AND attempt_count >= 1))
        AND num_nonnulls(error_code, error_message, error_group)
            = CASE status WHEN 'failed' THEN 3 ELSE 0 END
        AND (dead_letter IS NULL OR error_code IS NOT NULL)
        AND (finished_at IS NOT NULL) = (status >= 'complete')
        AND (result IS NULL OR status = 'complete')
        AND (NOT ready OR status = 'queued')
    ),
    CONSTRAINT numbers_are_sound CHECK (
        token >= 0 AND max_attempts >= 1 AND attempt_count BETWEEN 0 AND max_attempts
        AND progress BETWEEN 0 AND 1
    )
) WITH (
    -- Room for new versions of a row near the old one. Dead versions are vacuumed before they slow
    -- the claims down.
    fillfactor = 70,
    toast_tuple_target = 1024,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

-- Partial indexes: each holds only the jobs in one state, so the size of the table does not matter.
CREATE INDEX jobs_ready ON holdfast.jobs (lane, priority DESC, ready_at, seq) WHERE ready;
CREATE INDEX jobs_scheduled ON holdfast.jobs (ready_at) WHERE status = 'queued' AND NOT ready;
CREATE INDEX jobs_waiting ON holdfast.jobs (seq) WHERE status IN ('uploaded', 'queued');
-- By worker_id and not by status: what looks for jobs by seq and status must not be planned by this.
CREATE INDEX jobs_running ON holdfast.jobs (lane, seq) WHERE worker_id IS NOT NULL;
CREATE INDEX jobs_deadline ON holdfast.jobs (deadline_at)
    WHERE deadline_at IS NOT NULL AND finished_at IS NULL;
-- Failed and cancelled jobs, for retention and for lists. Completed ones, which nearly all jobs
-- become, are in no index but the primary key: see holdfast.completed.
CREATE INDEX jobs_unsuccessful_by_kind ON holdfast.jobs (kind, status, finished_at, seq)
    WHERE status IN ('failed', 'cancelled');
CREATE INDEX jobs_unsuccessful ON holdfast.jobs (seq) WHERE status IN ('failed', 'cancelled');
CREATE INDEX jobs_dead ON holdfast.jobs (finished_at, seq) WHERE dead_letter IS NOT NULL;
CREATE INDEX jobs_dead_alike ON holdfast.jobs (kind, error_code, error_group, finished_at, seq)
    WHERE dead_letter IS NOT NULL;
-- A twin is a job with the same key that is unfinished or complete.
CREATE UNIQUE INDEX jobs_dedup ON holdfast.jobs (kind, dedup_key)
    WHERE dedup_key IS NOT NULL AND status NOT IN ('failed', 'cancelled');

-- History, append-only. One row is a page: the same event of all jobs that one statement moved, one
-- array element per job. `sequence` is the number of the page's last event, and those before it count
-- down from there; pages are numbered 10000 apart, so there is room for all of them. `previous` is
-- the page with the job's event before this one: a job's history is read along that chain, beginning
-- at jobs.last_event, and needs no index by job. Events that end attempts have an `outcome` and the
-- rest of the attempt; a running attempt is in the job's row. The array of workers may have one
-- element for all jobs, that of metas may be missing. An event with an error has a page of its own.
CREATE SEQUENCE holdfast.event_sequence AS bigint INCREMENT 10000 MINVALUE 10000;
CREATE TABLE holdfast.history (
    sequence      bigint PRIMARY KEY,
    at            double precision NOT NULL,
    retry_after   double precision,
    name          text   NOT NULL,
    outcome       holdfast.outcome,
    error_code    text,
    error_message text,
    workers       text[],
    metas         text[],
    jobs          bigint[] NOT NULL,
    previous      bigint[],
    attempts      integer[],
    tokens        bigint[],
    started_ats   double precision[],
    durations     double precision[],
    CONSTRAINT a_page_is_whole CHECK (
        cardinality(jobs) BETWEEN 1 AND 10000
        AND (outcome IS NULL OR num_nulls(workers, tokens, started_ats, durations) = 0)
    )
);
-- Not compressed: that costs more than writing them.
ALTER TABLE holdfast.history
    ALTER jobs SET STORAGE EXTERNAL,
    ALTER previous SET STORAGE EXTERNAL,
    ALTER attempts SET STORAGE EXTERNAL,
    ALTER tokens SET STORAGE EXTERNAL,
    ALTER started_ats SET STORAGE EXTERNAL,
    ALTER durations SET STORAGE EXTERNAL;

-- The same, one row per job and event.
CREATE VIEW holdfast.events AS
SELECT
    history.sequence - cardinality(history.jobs) + line.place AS sequence,
    history.sequence AS page, line.place, line.job, line.previous, history.at, history.name,
    coalesce(line.attempt, 0) AS attempt, history.outcome, line.token,
    coalesce(line.worker, history.workers[1]) AS worker_id, line.started_at, line.duration,
    history.retry_after, history.error_code, history.error_message, line.meta
FROM holdfast.history
CROSS JOIN LATERAL unnest(
    history.jobs, history.previous, history.attempts, history.tokens, history.workers,
    history.started_ats, history.durations, history.metas
) WITH ORDINALITY AS line (
    job, previous, attempt, token, worker, started_at, duration, meta, place
);

-- Which pages of history tell of completed jobs of a kind, for retention: one row per page, where an
-- index of jobs would have one entry per job.
CREATE TABLE holdfast.completed (
    kind text   COLLATE "C" NOT NULL,
    page bigint NOT NULL,
    PRIMARY KEY (kind, page)
);

CREATE TABLE holdfast.late_results (
    job         bigint NOT NULL,
    token       bigint NOT NULL,
    received_at double precision NOT NULL,
    result      text,
    PRIMARY KEY (job, token)
);

-- `holds`: jobs wait while the breaker is open. `needs_check`: it has limits that a claim must check.
-- `ramp_until`: until then its backlog is released gradually.
CREATE TABLE holdfast.downstreams (
    name       text    COLLATE "C" PRIMARY KEY,
    version    bigint  NOT NULL,
    generation bigint  NOT NULL,
    open_until double precision,
    ramp_until double precision,
    holds      boolean NOT NULL,
    needs_check boolean NOT NULL,
    state      text    NOT NULL CHECK (state IN ('CLOSED', 'OPEN', 'HALF_OPEN')),
    settings   text    NOT NULL,
    record     text    NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE TABLE holdfast.rate_spent (
    downstream text    COLLATE "C" NOT NULL,
    width      double precision NOT NULL,
    bucket     bigint  NOT NULL,
    spent      integer NOT NULL,
    PRIMARY KEY (downstream, width, bucket)
);

CREATE TABLE holdfast.leaders (
    name       text   PRIMARY KEY,
    holder     text   NOT NULL,
    term       bigint NOT NULL,
    expires_at double precision NOT NULL
);

-- Counters: each transaction appends its changes to counter_deltas, so that no two workers wait for
-- the same row; they are folded into counters now and then. A reader adds both.
-- Families: lane (id, place), outcome (kind, status, attempts), dead (kind, code, group), total.
CREATE TABLE holdfast.counters (
    family text   COLLATE "C" NOT NULL,
    a      text   COLLATE "C" NOT NULL,
    b      text   COLLATE "C" NOT NULL,
    c      text   COLLATE "C" NOT NULL,
    count  bigint NOT NULL,
    PRIMARY KEY (family, a, b, c)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE TABLE holdfast.counter_deltas (
    delta  bigint NOT NULL,
    family text   NOT NULL,
    a      text   NOT NULL,
    b      text   NOT NULL DEFAULT '',
    c      text   NOT NULL DEFAULT ''
) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

-- For people: jobs and attempts with real timestamps, under the names of the Python model.
CREATE VIEW holdfast.jobs_readable AS
SELECT
    jobs.id, jobs.kind, lanes.queue, nullif(lanes.downstream, '') AS downstream, jobs.status,
    jobs.status = 'queued' AND to_timestamp(jobs.ready_at) <= now() AND EXISTS (
        SELECT FROM holdfast.downstreams
        WHERE downstreams.name = lanes.downstream
            AND downstreams.state = 'OPEN'
            AND (
                downstreams.open_until IS NULL
                OR (downstreams.holds AND to_timestamp(downstreams.open_until) > now())
            )
    ) AS held,
    jobs.priority, jobs.attempt_count, jobs.max_attempts, jobs.manual_retry_count,
    to_timestamp(jobs.created_at) AS created_at, to_timestamp(jobs.queued_at) AS queued_at,
    to_timestamp(jobs.ready_at) AS ready_at, to_timestamp(jobs.started_at) AS started_at,
    to_timestamp(jobs.last_attempt_at) AS last_attempt_at,
    to_timestamp(jobs.finished_at) AS finished_at, to_timestamp(jobs.deadline_at) AS deadline_at,
    jobs.worker_id, to_timestamp(jobs.lease_expires_at) AS lease_expires_at,
    jobs.cancel_requested, jobs.progress, jobs.progress_note, jobs.owner, jobs.dedup_key,
    jobs.error_code, jobs.error_message, jobs.dead_letter, jobs.meta, jobs.arguments, jobs.result
FROM holdfast.jobs
JOIN holdfast.lanes ON lanes.id = jobs.lane;

CREATE VIEW holdfast.attempts_readable AS
SELECT
    jobs.id AS job_id, events.attempt AS number, events.worker_id,
    to_timestamp(events.started_at) AS started_at, to_timestamp(events.at) AS finished_at,
    events.duration, events.outcome, events.error_code, events.error_message, events.retry_after,
    events.meta
FROM holdfast.events
JOIN holdfast.jobs ON jobs.seq = events.job
WHERE events.outcome IS NOT NULL
UNION ALL
SELECT
    jobs.id, jobs.attempt_count, jobs.worker_id, to_timestamp(jobs.last_attempt_at), NULL, NULL,
    NULL, NULL, NULL, NULL, NULL
FROM holdfast.jobs
WHERE jobs.status = 'processing';

-- The types that functions take and return. Workers call functions by name, so neither a signature
-- nor one of these types is ever changed: see docs/explanation/stores.md.

-- Jobs to be created, one array per column. An array of a required column may hold one value for
-- all jobs, except the ids; one of an optional column may be NULL. Jobs with dedup keys are sorted by
-- key, so that two calls with common keys cannot deadlock; `numbers` are then their places in the
-- call, from 1.
CREATE TYPE holdfast.new_jobs AS (
    ids          text[],
    numbers      integer[],
    lanes        integer[],
    kinds        text[],
    statuses     holdfast.status[],
    arguments    text[],
    priorities   smallint[],
    max_attempts integer[],
    run_ats      double precision[],
    deadlines    double precision[],
    dedup_keys   text[],
    owners       text[],
    metas        text[]
);

-- A change of one job's status. `outcome` is how its attempt ended, NULL where it was not running.
-- `ready_at` is for jobs that return to the queue, NULL where they keep their place; `gives_back` says
-- that the attempt is not counted. `duration` is NULL where it is to be computed.
CREATE TYPE holdfast.move AS (
    job         bigint,
    target      holdfast.status,
    name        text,
    outcome     holdfast.outcome,
    code        text,
    message     text,
    error_group text,
    dead_letter text,
    ready_at    double precision,
    retry_after double precision,
    gives_back  boolean,
    duration    double precision,
    meta        text
);

-- One line of a tick's answer. `what` says which fields are used:
--   claims     jobs to run, one array per column; NULL for an optional column without values
--   stale      report `number` was refused: its worker no longer has the job
--   late       report `number` was refused: its result is stored as a late one
--   failed     report `number` was overruled: its job failed
--   cancelled  report `number` was overruled: its job was cancelled
--   timed_out  the job `id` failed at its deadline
--   check      jobs wait in lanes where a limit or a breaker must be checked; nothing was claimed
--   wake       a job becomes claimable `at`
--   outdated   a downstream has another version than given; nothing was done
--   now        the time used for all of this
CREATE TYPE holdfast.tick_line AS (
    what         text,
    number       bigint,
    at           double precision,
    id           text,
    seqs         bigint[],
    ids          text[],
    tokens       bigint[],
    lanes        integer[],
    attempts     integer[],
    max_attempts integer[],
    created_ats  double precision[],
    deadlines    double precision[],
    generations  bigint[],
    owners       text[],
    metas        text[],
    arguments    text[]
);

-- A worker's reports, one array per column. A job is named by its seq where the worker knows it, else
-- by its id. The arrays of tokens, workers and outcomes may hold one value for all reports, those of
-- optional columns may be NULL. An outcome is that of an attempt, or `uncounted`: a retry whose
-- attempt is not counted.
CREATE TYPE holdfast.reports AS (
    seqs      bigint[],
    ids       text[],
    tokens    bigint[],
    workers   text[],
    outcomes  text[],
    results   text[],
    codes     text[],
    messages  text[],
    groups    text[],
    reasons   text[],
    afters    double precision[],
    durations double precision[],
    metas     text[]
);

-- A worker's claim: up to `most` jobs of some queues and kinds, under leases of so many seconds,
-- beginning after the lane that was served last. `limited` are the kinds with a limit of their own.
CREATE TYPE holdfast.request AS (
    queues  text[],
    kinds   text[],
    limited text[],
    most    integer,
    lease   double precision,
    after   integer
);
