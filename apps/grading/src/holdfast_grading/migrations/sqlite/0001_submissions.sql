-- Submissions and their results. Times are epoch seconds; JSON is text.

-- One row per submission. `PROCESSING` is stored once an attempt was made; before that it is read from the
-- message `message_id` in the outbox, which says whether it was published (see tables.py).
CREATE TABLE grading_submissions (
    id              TEXT    PRIMARY KEY,
    owner           TEXT    NOT NULL,
    organisation    TEXT    NOT NULL,
    request_id      TEXT    NOT NULL,
    skill           TEXT    NOT NULL,
    payload         TEXT    NOT NULL,
    message_id      TEXT,
    status          TEXT    NOT NULL DEFAULT 'PENDING'
        CHECK (status IN ('PENDING', 'PROCESSING', 'COMPLETED', 'FAILED')),
    failure_reason  TEXT,
    failure_message TEXT,
    attempts        INTEGER NOT NULL DEFAULT 0,
    score           REAL,
    created_at      REAL    NOT NULL,
    deadline_at     REAL    NOT NULL,
    completed_at    REAL,
    UNIQUE (owner, request_id),
    CHECK ((status = 'FAILED') = (failure_reason IS NOT NULL)),
    CHECK ((status = 'COMPLETED') = (score IS NOT NULL)),
    CHECK ((status IN ('COMPLETED', 'FAILED')) = (completed_at IS NOT NULL))
) STRICT;
-- Ids grow with time, so this is also the order of creation.
CREATE INDEX grading_submissions_listed ON grading_submissions (owner, id);
CREATE INDEX grading_submissions_unfinished ON grading_submissions (deadline_at)
WHERE status IN ('PENDING', 'PROCESSING');

-- The results that arrived. A late one is kept for audit and counts nowhere.
CREATE TABLE grading_results (
    submission_id TEXT    NOT NULL REFERENCES grading_submissions (id),
    is_late       INTEGER NOT NULL CHECK (is_late IN (0, 1)),
    received_at   REAL    NOT NULL,
    result        TEXT    NOT NULL,
    PRIMARY KEY (submission_id, received_at)
) STRICT, WITHOUT ROWID;
