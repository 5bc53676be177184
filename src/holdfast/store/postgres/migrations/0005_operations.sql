-- Intake.

-- One row while operators have paused the intake over HTTP, see jobs/intake_port.py.
CREATE TABLE holdfast.intake_pause (
    id        integer PRIMARY KEY CHECK (id = 1),
    reason    text    NOT NULL,
    paused_at double precision NOT NULL
);
