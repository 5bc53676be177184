-- Intake.

-- One row while operators have paused the intake over HTTP, see jobs/intake_port.py.
CREATE TABLE holdfast.intake_pause (
    id        integer PRIMARY KEY CHECK (id = 1),
    reason    text    NOT NULL,
    paused_at double precision NOT NULL
);

-- Webhooks.

-- Addresses that are told of the ends of jobs, see jobs/webhook_port.py. `owner` NULL is every owner's jobs,
-- `kinds` NULL all kinds; both lists are JSON arrays. Ends with a sequence up to `since` are older than it.
CREATE TABLE holdfast.webhooks (
    id         text   COLLATE "C" PRIMARY KEY,
    url        text   NOT NULL,
    owner      text   COLLATE "C",
    kinds      text,
    events     text   NOT NULL,
    secret     text   NOT NULL,
    since      bigint NOT NULL,
    created_at double precision NOT NULL
);
CREATE INDEX webhooks_of_owner ON holdfast.webhooks (owner) WHERE owner IS NOT NULL;
-- Up to which event deliveries are enqueued; one row.
CREATE TABLE holdfast.webhook_cursor (
    id       integer PRIMARY KEY CHECK (id = 1),
    sequence bigint  NOT NULL
);
