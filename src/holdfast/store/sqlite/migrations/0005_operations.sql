-- Intake.

-- One row while operators have paused the intake over HTTP, see jobs/intake_port.py.
CREATE TABLE holdfast_intake_pause (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    reason    TEXT    NOT NULL,
    paused_at REAL    NOT NULL
) STRICT;
