-- The outbox: added to in the callers' transactions, read by relays.

-- Say whether this is the database that `p_system` and `p_database` name: a caller's connection may be one
-- to another. `p_system` is the identifier of its server, or `started` and the epoch seconds of the server's start
-- where the store's account may not read that. In PL/pgSQL, which keeps the plans: planning them anew with each call
-- took longer than the rest of adding a message.
CREATE OR REPLACE FUNCTION holdfast.is_database(p_system text, p_database text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    IF p_database <> (SELECT oid::text FROM pg_database WHERE datname = current_database()) THEN
        RETURN false;
    ELSIF starts_with(p_system, 'started ') THEN
        RETURN p_system = 'started ' || extract(epoch FROM pg_postmaster_start_time());
    END IF;
    RETURN p_system = (SELECT system_identifier::text FROM pg_control_system());
END
$$;

-- Add messages and wake the relays with the commit. Each array has one entry per message; a delay is in
-- seconds, 0 for none.
CREATE OR REPLACE FUNCTION holdfast.insert_messages(
    p_ids text[],
    p_aggregates text[],
    p_types text[],
    p_payloads text[],
    p_headers text[],
    p_delays double precision[],
    p_now double precision
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    t double precision := holdfast.time_of(p_now);
BEGIN
    INSERT INTO holdfast.outbox (
        id, aggregate_id, message_type, payload, headers, created_at, due_at, delayed
    )
    SELECT id, aggregate, type, payload, headers, t, t + delay, delay > 0
    FROM unnest(p_ids, p_aggregates, p_types, p_payloads, p_headers, p_delays) WITH ORDINALITY
        AS given (id, aggregate, type, payload, headers, delay, place)
    ORDER BY place;
    PERFORM pg_notify('holdfast', 'outbox');
END
$$;

-- Add messages inside the caller's transaction. False, and nothing is added, where this is not the database that `p_system` and `p_database` name. The settings are for
-- a caller's connection, which has none of ours.
CREATE OR REPLACE FUNCTION holdfast.add_messages(
    p_ids text[],
    p_aggregates text[],
    p_types text[],
    p_payloads text[],
    p_headers text[],
    p_delays double precision[],
    p_system text,
    p_database text,
    p_now double precision
) RETURNS boolean
LANGUAGE plpgsql
SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF NOT holdfast.is_database(p_system, p_database) THEN
        RETURN false;
    END IF;
    PERFORM holdfast.insert_messages(
        p_ids, p_aggregates, p_types, p_payloads, p_headers, p_delays, p_now
    );
    RETURN true;
END
$$;

-- Write what became of claimed messages, and return how many of the reports were refused: their claims
-- have expired, and other relays hold the messages.
CREATE OR REPLACE FUNCTION holdfast.report_messages(
    p_ids text[],
    p_tokens bigint[],
    p_statuses text[],
    p_errors text[],
    p_delays double precision[],
    p_now double precision
) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    t double precision := holdfast.time_of(p_now);
    written integer;
BEGIN
    UPDATE holdfast.outbox AS messages SET
        status = given.status,
        -- A report ends the claim, so the same report that comes again finds another token.
        token = messages.token + CASE WHEN given.status = 'pending' THEN 1 ELSE 0 END,
        retry_count = messages.retry_count + CASE WHEN given.error IS NULL THEN 0 ELSE 1 END,
        error_message = CASE
            WHEN given.status = 'published' THEN NULL
            ELSE coalesce(given.error, messages.error_message)
        END,
        processed_at = CASE WHEN given.status <> 'pending' THEN t END,
        claimable_at = CASE WHEN given.status = 'pending' AND given.delay > 0 THEN t + given.delay END
    FROM unnest(p_ids, p_tokens, p_statuses, p_errors, p_delays)
        AS given (id, token, status, error, delay)
    WHERE messages.id = given.id AND messages.token = given.token AND messages.status = 'pending';
    GET DIAGNOSTICS written = ROW_COUNT;
    RETURN cardinality(p_ids) - written;
END
$$;

-- Claim the oldest messages of the aggregates of which none is claimed or waits for a retry. One claim
-- at a time: with two, one could take a message while the other takes the next of the same aggregate.
-- The ids are chosen as an array, which leads to the index: with IN, a plan made while the table was large read
-- the whole of it, because it does not know how small the limit is.
CREATE OR REPLACE FUNCTION holdfast.claim_messages(
    p_limit integer, p_seconds double precision, p_now double precision
) RETURNS SETOF holdfast.outbox
LANGUAGE plpgsql AS $$
DECLARE
    t double precision := holdfast.time_of(p_now);
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('holdfast outbox', 0));
    -- A late report may have locked such a message, and its transaction waits for this one.
    UPDATE holdfast.outbox AS messages SET claimable_at = NULL
    WHERE messages.id = ANY (ARRAY(
        SELECT waiting.id FROM holdfast.outbox AS waiting
        WHERE waiting.status = 'pending' AND waiting.claimable_at <= t
        FOR UPDATE SKIP LOCKED
    ));
    UPDATE holdfast.outbox AS messages SET delayed = false
    WHERE messages.delayed AND messages.due_at <= t;
    RETURN QUERY
    UPDATE holdfast.outbox AS messages SET claimable_at = t + p_seconds, token = messages.token + 1
    WHERE messages.id = ANY (ARRAY(
        SELECT ready.id FROM holdfast.outbox AS ready
        WHERE ready.status = 'pending' AND ready.claimable_at IS NULL AND NOT ready.delayed
            AND ready.aggregate_id NOT IN (
                SELECT waiting.aggregate_id FROM holdfast.outbox AS waiting
                WHERE waiting.status = 'pending' AND waiting.claimable_at IS NOT NULL
            )
        ORDER BY ready.seq
        LIMIT p_limit
    ))
        -- A late report of an expired claim may have published one since it was chosen.
        AND messages.status = 'pending' AND messages.claimable_at IS NULL
    RETURNING messages.*;
END
$$;

-- Write the reports of a relay and claim its next messages, in one round trip: one row for each claim,
-- or one without a claim. `wake_in` is set where fewer were claimed than asked for.
CREATE OR REPLACE FUNCTION holdfast.relay_tick(
    p_ids text[],
    p_tokens bigint[],
    p_statuses text[],
    p_errors text[],
    p_delays double precision[],
    p_limit integer,
    p_seconds double precision,
    p_now double precision
) RETURNS TABLE (
    refused integer, wake_in double precision, seq bigint, token bigint, id text, aggregate_id text,
    message_type text, payload text, retry_count integer, created_at double precision,
    headers text
)
LANGUAGE plpgsql AS $$
DECLARE
    claims holdfast.outbox[] := '{}';
BEGIN
    refused := 0;
    IF cardinality(p_ids) > 0 THEN
        refused := holdfast.report_messages(p_ids, p_tokens, p_statuses, p_errors, p_delays, p_now);
    END IF;
    IF p_limit > 0 THEN
        SELECT coalesce(array_agg(claimed ORDER BY claimed.seq), '{}') INTO claims
        FROM holdfast.claim_messages(p_limit, p_seconds, p_now) AS claimed;
    END IF;
    IF cardinality(claims) < p_limit THEN
        wake_in := least(
            (
                SELECT min(waiting.claimable_at) FROM holdfast.outbox AS waiting
                WHERE waiting.status = 'pending' AND waiting.claimable_at IS NOT NULL
            ),
            (SELECT min(later.due_at) FROM holdfast.outbox AS later WHERE later.delayed)
        ) - holdfast.time_of(p_now);
    END IF;
    RETURN QUERY
    SELECT
        relay_tick.refused, relay_tick.wake_in, claim.seq, claim.token, claim.id,
        claim.aggregate_id, claim.message_type, claim.payload, claim.retry_count, claim.created_at,
        claim.headers
    FROM (SELECT 1) AS always
    LEFT JOIN unnest(claims) AS claim ON true;
END
$$;
