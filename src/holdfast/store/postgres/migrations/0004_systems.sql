-- Rates that all processes share, see jobs/rate_port.py.

-- `given` counts the starts that were given out, `kept` says how many of the last ones are kept.
CREATE TABLE holdfast.rates (
    name       text   COLLATE "C" PRIMARY KEY,
    given      bigint NOT NULL DEFAULT 0,
    last_start double precision,
    kept       bigint NOT NULL
);
-- The last starts of each rate, numbered without gaps.
CREATE TABLE holdfast.rate_starts (
    name     text   COLLATE "C" NOT NULL,
    number   bigint NOT NULL,
    start_at double precision NOT NULL,
    PRIMARY KEY (name, number)
);
