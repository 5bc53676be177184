-- Intake.

-- One row while operators have paused the intake over HTTP, see jobs/intake_port.py.
CREATE TABLE holdfast_intake_pause (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    reason    TEXT    NOT NULL,
    paused_at REAL    NOT NULL
) STRICT;

-- Webhooks.

-- Addresses that are told of the ends of jobs, see jobs/webhook_port.py. `owner` NULL is every owner's jobs,
-- `kinds` NULL all kinds; both lists are JSON arrays. Ends with a sequence up to `since` are older than it.
CREATE TABLE holdfast_webhooks (
    id         TEXT    PRIMARY KEY,
    url        TEXT    NOT NULL,
    owner      TEXT,
    kinds      TEXT,
    events     TEXT    NOT NULL,
    secret     TEXT    NOT NULL,
    since      INTEGER NOT NULL,
    created_at REAL    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_webhooks_of_owner ON holdfast_webhooks (owner) WHERE owner IS NOT NULL;
-- Up to which event deliveries are enqueued; one row.
CREATE TABLE holdfast_webhook_cursor (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    sequence INTEGER NOT NULL
) STRICT;
