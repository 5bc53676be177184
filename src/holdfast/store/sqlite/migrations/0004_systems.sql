-- Rates that all processes share, see jobs/rate_port.py.

-- `given` counts the starts that were given out, `kept` says how many of the last ones are kept.
CREATE TABLE holdfast_rates (
    name       TEXT    PRIMARY KEY,
    given      INTEGER NOT NULL,
    last_start REAL    NOT NULL,
    kept       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- The last starts of each rate, numbered without gaps.
CREATE TABLE holdfast_rate_starts (
    name     TEXT    NOT NULL,
    number   INTEGER NOT NULL,
    start_at REAL    NOT NULL,
    PRIMARY KEY (name, number)
) STRICT, WITHOUT ROWID;
