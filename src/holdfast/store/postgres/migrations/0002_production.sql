-- Locks first, in the order in which workers take them: nothing may be folded meanwhile, and a tick locks
-- jobs before counters.
SELECT pg_advisory_xact_lock((18502::bigint << 48) | ((1::bigint << 48) - 1));
LOCK TABLE holdfast.jobs IN ACCESS EXCLUSIVE MODE;

-- Logical replication: a publication of all tables refuses to delete from a table without a key. A
-- key of its own would be an index that every write to the counters has to fill.
ALTER TABLE holdfast.counter_deltas REPLICA IDENTITY FULL;

-- Plain names for two fields that only functions read; their positions stay.
ALTER TYPE holdfast.move RENAME ATTRIBUTE gives_back TO uncounted;
ALTER TYPE holdfast.reports RENAME ATTRIBUTE afters TO delays;

-- Whether jobs are held, in one place: until `held_until`, which is DownstreamRecord.held_until.
ALTER TABLE holdfast.downstreams ADD COLUMN held_until double precision GENERATED ALWAYS AS (
    CASE
        WHEN state = 'OPEN' AND open_until IS NULL THEN 'infinity'
        WHEN state = 'OPEN' AND holds THEN open_until
    END
) STORED;
CREATE OR REPLACE VIEW holdfast.jobs_readable AS
SELECT
    jobs.id, jobs.kind, lanes.queue, nullif(lanes.downstream, '') AS downstream, jobs.status,
    jobs.status = 'queued' AND jobs.ready_at <= extract(epoch FROM now()) AND EXISTS (
        SELECT FROM holdfast.downstreams
        WHERE downstreams.name = lanes.downstream
            AND downstreams.held_until > extract(epoch FROM now())
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

-- The functions create_jobs(new_jobs, integer[], double precision) and create_missing_jobs(new_jobs,
-- double precision) are no longer part of the schema. Calls that are under way now may still use
-- them, so the next migration drops them.

-- Pages of history written in a caller's transaction get their numbers when it commits. The function is
-- replaced by that of functions/history.sql.
CREATE FUNCTION holdfast.number_page() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE CONSTRAINT TRIGGER pages_are_numbered AFTER INSERT ON holdfast.history
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.sequence < 0) EXECUTE FUNCTION holdfast.number_page();

-- Counters of the family `kind`, the sums over the lanes of a kind.
INSERT INTO holdfast.counters (family, a, b, c, count)
SELECT 'kind', lanes.kind, counters.b, '', sum(counters.count)
FROM holdfast.counters
JOIN holdfast.lanes ON lanes.id = CASE counters.family WHEN 'lane' THEN counters.a::integer END
GROUP BY lanes.kind, counters.b;

-- Ready jobs by owner, so that a claim can go round the owners who wait in a lane. On a table of many
-- gigabytes build it beforehand with CREATE INDEX CONCURRENTLY under this name: building it here
-- keeps writers waiting for as long as the table takes to read.
DO $$ BEGIN
    IF EXISTS (
        SELECT FROM pg_index
        WHERE indexrelid = to_regclass('holdfast.jobs_ready_by_owner') AND NOT indisvalid
    ) THEN
        RAISE EXCEPTION 'the index holdfast.jobs_ready_by_owner is invalid: CREATE INDEX CONCURRENTLY '
            'did not finish. Drop it (DROP INDEX holdfast.jobs_ready_by_owner), build it again if you '
            'like, and migrate again';
    END IF;
END $$;
CREATE INDEX IF NOT EXISTS jobs_ready_by_owner
    ON holdfast.jobs (lane, priority DESC, (coalesce(owner, '') COLLATE "C"), ready_at, seq)
    WHERE ready;
-- Dropped in the same step, against the rule: it changes no answer, and each entry costs every claim.
DROP INDEX holdfast.jobs_ready;

-- A worker's claim: up to `most` jobs of some queues and kinds, under leases of so many seconds.
-- `limited` are the kinds with a limit of their own. `after` is the lane served last. `lanes` are lanes
-- that had ready jobs lately, to be looked at first, in this order. `families` numbers them from 1: lanes
-- that differ only in their kind have the same number; NULL where all lanes are to be looked for.
-- What the worker remembers of each of these lanes: the owner served last and how many jobs in a row
-- it was given, and the last job taken, where the next claim may begin; NULL where it knows nothing.
CREATE TYPE holdfast.claim_request AS (
    queues     text[],
    kinds      text[],
    limited    text[],
    most       integer,
    lease      double precision,
    after      integer,
    lanes      integer[],
    families   integer[],
    owners     text[],
    used       integer[],
    priorities smallint[],
    ready_ats  double precision[],
    seqs       bigint[]
);

-- One line of a tick's answer: holdfast.tick_line, and of the claimed jobs also priority and time. Three
-- more values of `what`:
--   scanned    all lanes with ready jobs that are not held; it took `at` seconds to find them
--   idle       lanes of the request that had no ready jobs, or were held
--   lanes      queue, downstream and kind of each lane that other lines name, `idle` excepted
CREATE TYPE holdfast.tick_answer AS (
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
    arguments    text[],
    priorities   smallint[],
    ready_ats    double precision[],
    queues       text[],
    downstreams  text[],
    kinds        text[]
);

-- A sub-queue, and how many of its jobs a claim takes. A sub-queue is the ready jobs of one lane, priority
-- and owner ('' for none), in the order of their times. At most `quota` are taken of those after the
-- job (ready_at, seq), or of all. A NULL priority means all jobs of the lane, in the order of the index.
CREATE TYPE holdfast.subqueue AS (
    lane     integer,
    priority smallint,
    owner    text,
    quota    integer,
    ready_at double precision,
    seq      bigint
);

-- Workers that are alive, or were: see functions/workers.sql. `session` is the number of the advisory
-- lock that the worker's heartbeat holds; `missing_since` is when it was first found to be free;
-- `server_started` is when the server started that the session is on.
CREATE SEQUENCE holdfast.worker_sessions AS bigint;
CREATE TABLE holdfast.workers (
    id             text        COLLATE "C" PRIMARY KEY,
    session        bigint      NOT NULL,
    missing_since  double precision,
    server_started timestamptz NOT NULL DEFAULT pg_postmaster_start_time()
);
-- Running jobs that someone asked to cancel: workers look for theirs twice a second. Not an index of
-- the jobs, which would be filled while writes are blocked.
CREATE TABLE holdfast.cancel_requests (
    worker_id text   COLLATE "C" NOT NULL,
    job       bigint NOT NULL,
    PRIMARY KEY (worker_id, job)
);
