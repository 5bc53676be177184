-- Submissions and their results. Times are epoch seconds; JSON is text. Indexed text is compared byte by
-- byte (COLLATE "C").
CREATE SCHEMA grading;

-- One row per submission. `PROCESSING` is stored once an attempt was made; before that it is read from the
-- message `message_id` in the outbox, which says whether it was published (see tables.py).
CREATE TABLE grading.submissions (
    id              text    COLLATE "C" PRIMARY KEY,
    owner           text    COLLATE "C" NOT NULL,
    organisation    text    NOT NULL,
    request_id      text    COLLATE "C" NOT NULL,
    skill           text    COLLATE "C" NOT NULL,
    payload         text    NOT NULL,
    message_id      text    COLLATE "C",
    status          text    COLLATE "C" NOT NULL DEFAULT 'PENDING'
        CHECK (status IN ('PENDING', 'PROCESSING', 'COMPLETED', 'FAILED')),
    failure_reason  text,
    failure_message text,
    attempts        integer NOT NULL DEFAULT 0,
    score           double precision,
    created_at      double precision NOT NULL,
    deadline_at     double precision NOT NULL,
    completed_at    double precision,
    UNIQUE (owner, request_id),
    CHECK ((status = 'FAILED') = (failure_reason IS NOT NULL)),
    CHECK ((status = 'COMPLETED') = (score IS NOT NULL)),
    CHECK ((status IN ('COMPLETED', 'FAILED')) = (completed_at IS NOT NULL))
);
-- Ids grow with time, so this is also the order of creation.
CREATE INDEX submissions_listed ON grading.submissions (owner, id);
CREATE INDEX submissions_unfinished ON grading.submissions (deadline_at)
WHERE status IN ('PENDING', 'PROCESSING');

-- The results that arrived. A late one is kept for audit and counts nowhere.
CREATE TABLE grading.results (
    submission_id text             COLLATE "C" NOT NULL REFERENCES grading.submissions (id),
    is_late       boolean          NOT NULL,
    received_at   double precision NOT NULL,
    result        text             NOT NULL,
    PRIMARY KEY (submission_id, received_at)
);
