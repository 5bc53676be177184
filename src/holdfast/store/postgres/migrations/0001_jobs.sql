-- The durable job engine: lanes, jobs, their history, downstreams, leadership, counters.
-- Times are epoch seconds of the database's clock; JSON is text, stored as it came.

-- One row a (queue, downstream, kind). A lane of the documentation is all rows of one (queue,
-- downstream); the kinds are kept apart so that one at its limit, or unknown to a worker, is passed
-- over without looking at its jobs. '' is "no downstream". Rows are never changed or deleted, so
-- processes may remember their ids.
CREATE TABLE holdfast.lanes (
    id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue      text NOT NULL,
    downstream text NOT NULL DEFAULT '',
    kind       text NOT NULL,
    CONSTRAINT lanes_are_unique UNIQUE (queue, downstream, kind)
);
CREATE INDEX lanes_by_downstream ON holdfast.lanes (downstream);
CREATE INDEX lanes_by_kind ON holdfast.lanes (kind);

-- Which job has which id and owner, written once. Apart from the jobs themselves: every move of a
-- job enters a new version of its row in all its indexes, and one over random ids costs the most.
CREATE TABLE holdfast.ids (
    id    text   PRIMARY KEY,
    job   bigint NOT NULL,
    owner text
);
CREATE INDEX ids_owned ON holdfast.ids (owner, job) WHERE owner IS NOT NULL;

-- Where a job stands. `last_event` is the newest line of its history, see holdfast.events.
CREATE SEQUENCE holdfast.job_sequence AS bigint;
CREATE TABLE holdfast.jobs (
    seq                bigint   PRIMARY KEY DEFAULT nextval('holdfast.job_sequence'),
    last_event         bigint   NOT NULL,
    previous_event     bigint,
    ready_at           double precision,
    token              bigint   NOT NULL DEFAULT 0,
    created_at         double precision NOT NULL,
    queued_at          double precision,
    started_at         double precision,
    last_attempt_at    double precision,
    finished_at        double precision,
    deadline_at        double precision,
    lease_expires_at   double precision,
    permit_generation  bigint,
    permit_trial       bigint,
    progress           double precision,
    lane               integer  NOT NULL,
    attempt_count      integer  NOT NULL DEFAULT 0,
    max_attempts       integer  NOT NULL,
    manual_retry_count integer  NOT NULL DEFAULT 0,
    priority           smallint NOT NULL DEFAULT 0,
    ready              boolean  NOT NULL DEFAULT false,
    cancel_requested   boolean  NOT NULL DEFAULT false,
    id                 text     NOT NULL,
    kind               text     NOT NULL,
    status             text     NOT NULL,
    worker_id          text,
    progress_note      text,
    dedup_key          text,
    owner              text,
    meta               text,
    error_code         text,
    error_message      text,
    error_group        text,
    dead_letter        text,
    result             text,
    arguments          text     NOT NULL,
    -- One constraint for all that depends on the status, and a short one: every statement that
    -- writes a job parses it anew.
    CONSTRAINT columns_fit_the_status CHECK (
        CASE WHEN status IN ('complete', 'failed', 'cancelled')
            THEN finished_at IS NOT NULL
            ELSE finished_at IS NULL AND status IN ('uploaded', 'queued', 'processing')
        END
        AND CASE status WHEN 'processing'
            THEN num_nulls(worker_id, lease_expires_at) = 0 AND token >= 1 AND attempt_count >= 1
            ELSE num_nonnulls(worker_id, lease_expires_at, permit_generation) = 0
        END
        AND CASE status WHEN 'failed'
            THEN num_nulls(error_code, error_message, error_group) = 0
            ELSE num_nonnulls(error_code, error_message, error_group, dead_letter) = 0
        END
        AND (result IS NULL OR status = 'complete')
        AND (NOT ready OR status = 'queued')
    ),
    CONSTRAINT numbers_are_sound CHECK (
        token >= 0 AND max_attempts >= 1 AND attempt_count >= 0 AND attempt_count <= max_attempts
        AND (progress IS NULL OR progress BETWEEN 0 AND 1)
    )
) WITH (
    -- Room on the page for a row's next version; dead versions swept before they slow the claims.
    fillfactor = 70,
    toast_tuple_target = 1024,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

-- Hot, and small for as long as work flows: each holds only rows in that state.
CREATE INDEX jobs_ready ON holdfast.jobs (lane, priority DESC, ready_at, seq) WHERE ready;
CREATE INDEX jobs_due ON holdfast.jobs (ready_at) WHERE status = 'queued' AND NOT ready;
CREATE INDEX jobs_leased ON holdfast.jobs (lane, lease_expires_at)
    WHERE lease_expires_at IS NOT NULL;
CREATE INDEX jobs_deadline ON holdfast.jobs (deadline_at)
    WHERE deadline_at IS NOT NULL AND finished_at IS NULL;
CREATE INDEX jobs_trials ON holdfast.jobs (lane) WHERE permit_trial IS NOT NULL;
CREATE INDEX jobs_waiting ON holdfast.jobs (seq) WHERE status IN ('uploaded', 'queued');
-- Cold: written once when a job finishes, read by retention and pages.
CREATE INDEX jobs_finished ON holdfast.jobs (kind, status, finished_at, seq)
    WHERE finished_at IS NOT NULL;
CREATE INDEX jobs_ended_badly ON holdfast.jobs (seq) WHERE status IN ('failed', 'cancelled');
CREATE INDEX jobs_dead ON holdfast.jobs (finished_at, seq) WHERE dead_letter IS NOT NULL;
CREATE INDEX jobs_dead_alike ON holdfast.jobs (kind, error_code, error_group, finished_at, seq)
    WHERE dead_letter IS NOT NULL;
-- A twin is a job with the same key that is unfinished or complete.
CREATE UNIQUE INDEX jobs_dedup ON holdfast.jobs (kind, dedup_key)
    WHERE dedup_key IS NOT NULL AND status NOT IN ('failed', 'cancelled');

-- History, append-only. A line names the one before it of the same job, so that a job's history is
-- read along that chain from jobs.last_event, and no index by job must be kept. A line that ends an
-- attempt has an `outcome` and with it the rest of the attempt; the one under way is the job's row.
CREATE SEQUENCE holdfast.event_sequence AS bigint CACHE 1;
CREATE TABLE holdfast.events (
    sequence      bigint  PRIMARY KEY,
    previous      bigint,
    job           bigint  NOT NULL,
    at            double precision NOT NULL,
    started_at    double precision,
    duration      double precision,
    retry_after   double precision,
    token         bigint,
    attempt       integer NOT NULL,
    name          text    NOT NULL,
    outcome       text,
    worker_id     text,
    error_code    text,
    error_message text,
    meta          text,
    CONSTRAINT outcome_is_known CHECK (outcome IN (
        'complete', 'retry', 'failed', 'released', 'cancelled', 'lease_lost', 'timeout'
    )),
    CONSTRAINT an_attempt_is_whole CHECK (
        outcome IS NULL OR (
            started_at IS NOT NULL AND duration IS NOT NULL AND token IS NOT NULL
            AND worker_id IS NOT NULL
        )
    )
);

CREATE TABLE holdfast.late_results (
    job         bigint NOT NULL,
    token       bigint NOT NULL,
    received_at double precision NOT NULL,
    result      text,
    PRIMARY KEY (job, token)
);

-- `holds`: jobs wait while it is open. `needs_care`: it has limits that a claim must count for.
-- `ramp_until`: until then its backlog is let go gradually.
CREATE TABLE holdfast.downstreams (
    name       text    PRIMARY KEY,
    version    bigint  NOT NULL,
    generation bigint  NOT NULL,
    open_until double precision,
    ramp_until double precision,
    holds      boolean NOT NULL,
    needs_care boolean NOT NULL,
    state      text    NOT NULL CHECK (state IN ('CLOSED', 'OPEN', 'HALF_OPEN')),
    settings   text    NOT NULL,
    record     text    NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE TABLE holdfast.rate_spent (
    downstream text    NOT NULL,
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

-- Counters: what happens is appended to counter_deltas in the transaction that does it, so that
-- no two workers ever wait for one row, and folded into counters now and then. A reader adds both.
-- Families: lane (id, place), outcome (kind, status, attempts), dead (kind, code, group), total.
CREATE TABLE holdfast.counters (
    family text   NOT NULL,
    a      text   NOT NULL,
    b      text   NOT NULL,
    c      text   NOT NULL,
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
