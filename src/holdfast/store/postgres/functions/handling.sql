-- Requests that consumers have begun: see holdfast.outbox.handling.

-- Claim a request for a delivery; no row where it must not run. A message of a later round starts with a fresh
-- number of attempts: a person has requeued it. The commit does not wait for the disk: a crash of the server may
-- forget that the request was begun, never that it was handled.
CREATE OR REPLACE FUNCTION holdfast.begin_request(
    p_consumer text,
    p_request_id text,
    p_round integer,
    p_seconds double precision,
    p_now double precision
) RETURNS TABLE (attempts integer, token bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    t double precision := holdfast.time_of(p_now);
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO holdfast.handling AS known (
        consumer, request_id, round, attempts, token, leased_until, updated_at
    )
    VALUES (p_consumer, p_request_id, p_round, 1, 1, t + p_seconds, t)
    ON CONFLICT (consumer, request_id) DO UPDATE SET
        round = excluded.round,
        attempts = CASE WHEN excluded.round > known.round THEN 1 ELSE known.attempts + 1 END,
        token = known.token + 1,
        dead = false,
        leased_until = excluded.leased_until,
        updated_at = excluded.updated_at
    WHERE (known.leased_until IS NULL OR known.leased_until <= t)
        AND (excluded.round > known.round OR (excluded.round = known.round AND NOT known.dead))
    RETURNING known.attempts, known.token INTO attempts, token;
    -- After the insert, which waits for a transaction that is just recording the request as handled.
    IF EXISTS (
        SELECT FROM holdfast.inbox AS handled
        WHERE handled.consumer = p_consumer AND handled.request_id = p_request_id
    ) THEN
        DELETE FROM holdfast.handling AS known
        WHERE known.consumer = p_consumer AND known.request_id = p_request_id;
    ELSIF attempts IS NOT NULL THEN
        RETURN NEXT;
    END IF;
END
$$;

-- End a delivery without a result, and add the messages that replace the one it was started by. False, and
-- nothing is added, where the lease has expired and another delivery has taken over.
CREATE OR REPLACE FUNCTION holdfast.release_request(
    p_consumer text,
    p_request_id text,
    p_token bigint,
    p_replaced integer,
    p_uncounted integer,
    p_dead boolean,
    p_ids text[],
    p_aggregates text[],
    p_types text[],
    p_payloads text[],
    p_headers text[],
    p_delays double precision[],
    p_now double precision
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE holdfast.handling AS known SET
        round = known.round + p_replaced,
        attempts = known.attempts - p_uncounted,
        dead = p_dead,
        leased_until = NULL,
        updated_at = holdfast.time_of(p_now)
    WHERE known.consumer = p_consumer AND known.request_id = p_request_id AND known.token = p_token
        AND known.leased_until IS NOT NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM holdfast.insert_messages(
        p_ids, p_aggregates, p_types, p_payloads, p_headers, p_delays, p_now
    );
    RETURN true;
END
$$;

-- Record a request as handled, which ends its handling. False if it was handled before.
CREATE OR REPLACE FUNCTION holdfast.handle_request(
    p_consumer text, p_request_id text, p_now double precision
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM holdfast.handling WHERE consumer = p_consumer AND request_id = p_request_id;
    INSERT INTO holdfast.inbox (consumer, request_id, handled_at)
    VALUES (p_consumer, p_request_id, holdfast.time_of(p_now))
    ON CONFLICT (consumer, request_id) DO NOTHING;
    RETURN FOUND;
END
$$;

-- The same inside the caller's transaction. NULL, and nothing is recorded, where this is not the database
-- `p_database` of the server that was started at `p_server_start`. Each task pays for it, so the check reads neither
-- a table nor a file, and there is only the setting without which a plan that is made while a table is small, and
-- kept, might read the whole of it later.
CREATE OR REPLACE FUNCTION holdfast.record_request(
    p_consumer text, p_request_id text, p_server_start text, p_database text, p_now double precision
) RETURNS boolean
LANGUAGE plpgsql
SET enable_seqscan = off AS $$
BEGIN
    IF p_database <> current_database()
        OR p_server_start <> CAST(extract(epoch FROM pg_postmaster_start_time()) AS text)
    THEN
        RETURN NULL;
    END IF;
    RETURN holdfast.handle_request(p_consumer, p_request_id, p_now);
END
$$;

-- As the workers of the release before call it.
CREATE OR REPLACE FUNCTION holdfast.first_request(
    p_consumer text, p_request_id text, p_system text, p_database text, p_now double precision
) RETURNS boolean
LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF NOT holdfast.is_database(p_system, p_database) THEN
        RETURN NULL;
    END IF;
    RETURN holdfast.handle_request(p_consumer, p_request_id, p_now);
END
$$;
