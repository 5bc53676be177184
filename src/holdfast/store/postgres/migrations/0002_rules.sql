-- What the database itself makes sure of, whoever writes.

CREATE FUNCTION holdfast.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'check_violation';
END
$$;

-- The table of legal moves, the same as holdfast.jobs.model.MOVES. The conditions stand in the
-- triggers, so that a legal move calls no function; AFTER, because a BEFORE trigger on an update
-- locks every row a second time.
CREATE TRIGGER jobs_are_born BEFORE INSERT ON holdfast.jobs FOR EACH ROW
WHEN (NEW.status NOT IN ('uploaded', 'queued'))
EXECUTE FUNCTION holdfast.refuse('illegal move: a job is created uploaded or queued');

CREATE TRIGGER jobs_move AFTER UPDATE OF status, token ON holdfast.jobs FOR EACH ROW
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

CREATE TRIGGER history_stands BEFORE UPDATE ON holdfast.history FOR EACH ROW
EXECUTE FUNCTION holdfast.refuse('history is append-only');

-- Transactions commit in another order than they number pages in. So whoever is about to take a
-- number first says from where on: a shared advisory lock on the last number taken, held until it
-- commits. The lowest such lock bounds what a reader may show, see holdfast.settled_sequence.
-- Shared locks never wait for each other. 18502 is "HF".
CREATE FUNCTION holdfast.announce() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(
        (18502::bigint << 48) | CASE WHEN is_called THEN last_value / 10000 ELSE 0 END
    )
    FROM holdfast.event_sequence;
END
$$;

-- Take the number of a page that a statement is about to fill.
CREATE FUNCTION holdfast.next_page() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.announce();
    RETURN nextval('holdfast.event_sequence');
END
$$;

-- And for the statements that take a number a job.
CREATE FUNCTION holdfast.announce_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.announce();
    RETURN NULL;
END
$$;
CREATE TRIGGER events_are_announced BEFORE UPDATE OF last_event ON holdfast.jobs
FOR EACH STATEMENT EXECUTE FUNCTION holdfast.announce_events();
