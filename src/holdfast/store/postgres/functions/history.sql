-- Writing and reading the history of jobs.

-- Transactions may commit in another order than they took page numbers. So before a transaction takes
-- its first number it announces that by a shared advisory lock on the last number taken, held until it
-- ends. Readers show only pages up to the lowest such lock, see holdfast.settled_sequence. Shared locks
-- never wait for each other. 18502 is "HF".
-- Once per transaction: each lock takes room in the server's lock table. A setting local to the
-- transaction remembers it; a savepoint that is rolled back takes the lock and the setting with it.
CREATE OR REPLACE FUNCTION holdfast.announce() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('holdfast.announced', true) = 'yes' THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(
        (18502::bigint << 48) | CASE WHEN is_called THEN last_value / 10000 ELSE 0 END
    )
    FROM holdfast.event_sequence;
    PERFORM set_config('holdfast.announced', 'yes', true);
END
$$;

-- Take the number of a page that a statement is about to write. In a caller's transaction, which may
-- stay open for long, it is negative: a page gets its real number when the transaction commits, so
-- that readers need not wait for it.
CREATE OR REPLACE FUNCTION holdfast.next_page() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('holdfast.joined', true) = 'yes' THEN
        RETURN -nextval('holdfast.event_sequence');
    END IF;
    PERFORM holdfast.announce();
    RETURN nextval('holdfast.event_sequence');
END
$$;

-- The trigger that does so.
-- With the rights of the schema's owner: a role that may only enqueue changes and deletes no other row.
CREATE OR REPLACE FUNCTION holdfast.number_page() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    before bigint := NEW.sequence;
BEGIN
    PERFORM holdfast.announce();
    NEW.sequence := nextval('holdfast.event_sequence');
    DELETE FROM holdfast.history WHERE sequence = before;
    INSERT INTO holdfast.history SELECT NEW.*;
    UPDATE holdfast.jobs SET last_event = NEW.sequence
    WHERE seq = ANY (NEW.jobs) AND last_event = before;
    RETURN NULL;
END
$$;

-- Add an event to a job that keeps its status; the caller has locked it.
CREATE OR REPLACE FUNCTION holdfast.add_event(p_seq bigint, p_name text, p_meta text, t double precision)
RETURNS void
LANGUAGE sql VOLATILE AS $$
    WITH moved AS (
        UPDATE holdfast.jobs SET
            previous_event = last_event, last_event = nextval('holdfast.event_sequence')
        WHERE seq = p_seq
        RETURNING last_event, previous_event, attempt_count
    )
    INSERT INTO holdfast.history (sequence, at, name, metas, jobs, previous, attempts)
    SELECT
        last_event, t, p_name, ARRAY[p_meta], ARRAY[p_seq], ARRAY[previous_event],
        ARRAY[attempt_count]
    FROM moved
$$;

-- The events of some jobs, along their chains.
CREATE OR REPLACE FUNCTION holdfast.history_of(p_jobs bigint[]) RETURNS SETOF holdfast.events
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE chain AS (
        SELECT events.*
        FROM unnest(p_jobs) AS given (job)
        JOIN holdfast.jobs ON jobs.seq = given.job
        JOIN holdfast.events ON events.page = jobs.last_event AND events.job = jobs.seq
        UNION ALL
        SELECT events.*
        FROM chain
        JOIN holdfast.events ON events.page = chain.previous AND events.job = chain.job
    )
    SELECT * FROM chain
$$;

-- The last error of an unfinished job, a JSON array of code, message and number of the attempt; NULL if
-- none of its attempts failed. Reads the pages of its chain from `p_page` back to the first with an error;
-- usually that is the first or the second.
CREATE OR REPLACE FUNCTION holdfast.last_error(p_job bigint, p_page bigint) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    line record;
BEGIN
    WHILE p_page IS NOT NULL LOOP
        SELECT
            history.error_code, history.error_message, history.attempts[place.number] AS attempt,
            history.previous[place.number] AS previous
        INTO line
        FROM holdfast.history
        CROSS JOIN LATERAL array_position(history.jobs, p_job) AS place (number)
        WHERE history.sequence = p_page;
        IF line.error_code IS NOT NULL THEN
            RETURN json_build_array(line.error_code, line.error_message, line.attempt)::text;
        END IF;
        p_page := line.previous;
    END LOOP;
    RETURN NULL;
END
$$;

-- The highest sequence up to which no open transaction can still commit an event. The order of the
-- steps matters: a transaction that took a number up to `taken` had announced itself before `taken`
-- was read, so either its lock is found, or it has ended and the caller's next statement sees it.
CREATE OR REPLACE FUNCTION holdfast.settled_sequence() RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    taken bigint;
    announced bigint;
BEGIN
    SELECT CASE WHEN is_called THEN last_value ELSE 0 END INTO taken FROM holdfast.event_sequence;
    SELECT 10000 * min(((classid::bigint & 65535) << 32) | objid::bigint) INTO announced
    FROM pg_locks
    WHERE locktype = 'advisory'
        AND mode = 'ShareLock'
        AND objsubid = 1
        AND classid::bigint >> 16 = 18502
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
    RETURN least(taken, announced);
END
$$;

-- The events after `p_sequence` that may be shown. Sorted by page and place, which is the order of
-- `sequence` and follows the primary key.
CREATE OR REPLACE FUNCTION holdfast.changes_since(p_sequence bigint, p_owner text, p_limit integer)
RETURNS TABLE (
    sequence bigint, id text, kind text, owner text, name text, at double precision,
    attempt integer, duration double precision, error_code text, meta text
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    settled bigint := holdfast.settled_sequence();
BEGIN
    RETURN QUERY
    SELECT
        events.sequence, jobs.id, jobs.kind, jobs.owner, events.name, events.at,
        events.attempt, events.duration, events.error_code, events.meta
    FROM holdfast.events
    JOIN holdfast.jobs ON jobs.seq = events.job
    WHERE events.page > p_sequence
        AND events.page <= settled
        AND events.sequence > p_sequence
        AND (p_owner IS NULL OR jobs.owner = p_owner)
    ORDER BY events.page, events.place
    LIMIT p_limit;
END
$$;
