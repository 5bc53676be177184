-- What the database refuses, and what it announces, on every write.

CREATE OR REPLACE FUNCTION holdfast.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'check_violation';
END
$$;

-- The table of legal moves, the same as holdfast.jobs.model.MOVES. The conditions are in the
-- triggers, so that a legal move calls no function; AFTER, because a BEFORE trigger on an update
-- locks every row a second time.
-- A job with an event before its last one is not new: it is being restored from a dump.
CREATE OR REPLACE TRIGGER jobs_are_born BEFORE INSERT ON holdfast.jobs FOR EACH ROW
WHEN (NEW.status NOT IN ('uploaded', 'queued') AND NEW.previous_event IS NULL)
EXECUTE FUNCTION holdfast.refuse('illegal move: a job is created uploaded or queued');

CREATE OR REPLACE TRIGGER jobs_move AFTER UPDATE OF status, token ON holdfast.jobs FOR EACH ROW
WHEN (NEW.token < OLD.token OR (NEW.status <> OLD.status AND NOT CASE OLD.status
    WHEN 'queued' THEN NEW.status IN ('processing', 'failed', 'cancelled')
    WHEN 'processing' THEN NEW.status IN ('complete', 'queued', 'failed', 'cancelled')
    WHEN 'uploaded' THEN NEW.status IN ('queued', 'failed', 'cancelled')
    WHEN 'failed' THEN NEW.status = 'queued'
    ELSE false
END))
EXECUTE FUNCTION holdfast.refuse(
    'illegal move: not in the table of legal moves, or the token falls'
);

CREATE OR REPLACE TRIGGER history_stands BEFORE UPDATE ON holdfast.history FOR EACH ROW
EXECUTE FUNCTION holdfast.refuse('history is append-only');

-- Announce statements that take one page number per job.
CREATE OR REPLACE FUNCTION holdfast.announce_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.announce();
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER events_are_announced BEFORE UPDATE OF last_event ON holdfast.jobs
FOR EACH STATEMENT EXECUTE FUNCTION holdfast.announce_events();

-- A dump of the data alone brings the records of the migrations too; a migrated database keeps its own.
CREATE OR REPLACE FUNCTION holdfast.keep_own_record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM holdfast.migrations WHERE version = NEW.version;
    RETURN CASE WHEN NOT FOUND THEN NEW END;
END
$$;
CREATE OR REPLACE TRIGGER migrations_stand BEFORE INSERT ON holdfast.migrations
FOR EACH ROW EXECUTE FUNCTION holdfast.keep_own_record();
