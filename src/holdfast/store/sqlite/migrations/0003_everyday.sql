-- Periodic jobs: the state of each schedule, see ScheduleRecord in jobs/periodic_port.py. A leader changes
-- a row only where `version` is the one that it read, in the transaction that creates the slot's job.
CREATE TABLE holdfast_schedules (
    name          TEXT    PRIMARY KEY,
    version       INTEGER NOT NULL,
    schedule      TEXT    NOT NULL,
    missed        TEXT    NOT NULL,
    overlap       INTEGER NOT NULL CHECK (overlap IN (0, 1)),
    handled_until REAL    NOT NULL,
    next_slot     REAL,
    last_slot     REAL,
    last_job      TEXT,
    paused_at     REAL,
    resumed_at    REAL,
    declared_at   REAL    NOT NULL,
    seen_at       REAL    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE VIEW holdfast_schedules_readable AS
SELECT
    name, schedule, missed, overlap, strftime('%FT%TZ', next_slot, 'unixepoch') AS next_slot,
    strftime('%FT%TZ', last_slot, 'unixepoch') AS last_slot, last_job,
    strftime('%FT%TZ', handled_until, 'unixepoch') AS handled_until,
    strftime('%FT%TZ', paused_at, 'unixepoch') AS paused_at,
    strftime('%FT%TZ', resumed_at, 'unixepoch') AS resumed_at,
    strftime('%FT%TZ', seen_at, 'unixepoch') AS seen_at
FROM holdfast_schedules;

-- Failures can be seen.

-- The traceback of a failed attempt, shortened by the worker.
ALTER TABLE holdfast_events ADD COLUMN traceback TEXT;
-- The kinds that a worker can run, a JSON array; NULL for a worker of the release before.
ALTER TABLE holdfast_workers ADD COLUMN kinds TEXT;
