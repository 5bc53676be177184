-- A worker's tick: what it finished, then what it takes on, in one round trip.

-- One line of a tick's answer. `what` says which fields mean something:
--   claim      a job to run
--   stale      the report `number` was refused: the job is no longer its worker's
--   late       the report `number` was refused: its result is kept as a late one
--   failed     the job of report `number` went there instead of where the report says
--   cancelled  the same
--   timed_out  the job `id` failed at its deadline
--   care       jobs wait in lanes that need a closer look; nothing was claimed
--   wake       something becomes claimable `at`
--   outdated   a downstream is at another version than given; nothing was done
--   now        the time that all this was judged by
CREATE TYPE holdfast.tick_line AS (
    what         text,
    number       bigint,
    at           double precision,
    id           text,
    seq          bigint,
    token        bigint,
    lane         integer,
    attempt      integer,
    max_attempts integer,
    created_at   double precision,
    deadline_at  double precision,
    generation   bigint,
    owner        text,
    meta         text,
    arguments    text
);

-- Fail unfinished jobs, locked by the caller, with TIMEOUT. `p_timeout` is its message and group.
CREATE FUNCTION holdfast.time_out(p_seqs bigint[], p_timeout text[], t double precision)
RETURNS SETOF text
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    WITH late AS MATERIALIZED (
        SELECT
            seq, jobs.status AS place, ready, worker_id, last_attempt_at, token
        FROM unnest(p_seqs) AS given (job)
        JOIN holdfast.jobs ON jobs.seq = given.job
        WHERE finished_at IS NULL
    ), moved AS (
        UPDATE holdfast.jobs SET
            status = 'failed', ready = false, finished_at = t,
            error_code = 'TIMEOUT', error_message = p_timeout[1], error_group = p_timeout[2],
            dead_letter = 'deadline', worker_id = NULL, lease_expires_at = NULL,
            permit_generation = NULL, permit_trial = NULL, cancel_requested = false,
            previous_event = last_event, last_event = nextval('holdfast.event_sequence')
        FROM late
        WHERE jobs.seq = late.seq
        RETURNING
            jobs.id, jobs.seq, lane, kind, attempt_count, last_event, previous_event,
            late.worker_id,
            late.last_attempt_at, late.token,
            CASE
                WHEN late.ready THEN 'ready' WHEN late.place = 'queued' THEN 'scheduled'
                ELSE late.place
            END AS place
    ), told AS (
        INSERT INTO holdfast.events (
            sequence, previous, job, at, attempt, name, error_code, error_message,
            started_at, duration, token, worker_id, outcome
        )
        SELECT
            last_event, previous_event, seq, t, attempt_count, 'failed', 'TIMEOUT', p_timeout[1],
            CASE WHEN place = 'processing' THEN last_attempt_at END,
            CASE WHEN place = 'processing' THEN greatest(0, t - last_attempt_at) END,
            CASE WHEN place = 'processing' THEN token END,
            worker_id,
            CASE WHEN place = 'processing' THEN 'timeout' END
        FROM moved
    ), counted AS (
        INSERT INTO holdfast.counter_deltas (delta, family, a, b, c)
        SELECT -count(*), 'lane', lane::text, place, '' FROM moved GROUP BY lane, place
        UNION ALL
        SELECT count(*), 'lane', lane::text, 'failed', '' FROM moved GROUP BY lane
        UNION ALL
        SELECT count(*), 'outcome', kind, 'failed', attempt_count::text
        FROM moved
        GROUP BY kind, attempt_count
        UNION ALL
        SELECT count(*), 'dead', kind, 'TIMEOUT', p_timeout[2] FROM moved GROUP BY kind
        UNION ALL
        SELECT count(*), 'total', 'timed_out', '', '' FROM moved HAVING count(*) > 0
    )
    SELECT id FROM moved;
END
$$;

-- Keep a result that came after TIMEOUT, once a token; false where it is not late or was there.
CREATE FUNCTION holdfast.keep_late_result(
    p_seq bigint, p_token bigint, p_result text, t double precision
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM holdfast.jobs
    WHERE seq = p_seq AND token = p_token AND error_code = 'TIMEOUT'
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO holdfast.late_results (job, token, received_at, result)
    VALUES (p_seq, p_token, t, p_result)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM holdfast.tell(p_seq, 'late_result', NULL, t);
    INSERT INTO holdfast.counter_deltas (delta, family, a) VALUES (1, 'total', 'late_results');
    RETURN true;
END
$$;

-- Write one line of history that ends no attempt; the caller has locked the job.
CREATE FUNCTION holdfast.tell(p_seq bigint, p_name text, p_meta text, t double precision)
RETURNS void
LANGUAGE sql VOLATILE AS $$
    WITH moved AS (
        UPDATE holdfast.jobs SET
            previous_event = last_event, last_event = nextval('holdfast.event_sequence')
        WHERE seq = p_seq
        RETURNING last_event, previous_event, attempt_count
    )
    INSERT INTO holdfast.events (sequence, previous, job, at, attempt, name, meta)
    SELECT last_event, previous_event, p_seq, t, attempt_count, p_name, p_meta FROM moved
$$;

-- Record the reports of a worker. One is accepted where its job is processing under its token.
-- A job may be given by its seq, which spares looking up its id. The arrays of workers and outcomes
-- may hold one value for all reports, and those of what may be missing may be NULL.
CREATE FUNCTION holdfast.finish(
    p_seqs bigint[],
    p_ids text[],
    p_tokens bigint[],
    p_workers text[],
    p_outcomes text[],
    p_results text[],
    p_codes text[],
    p_messages text[],
    p_groups text[],
    p_reasons text[],
    p_afters double precision[],
    p_durations double precision[],
    p_metas text[],
    p_timeout text[],
    t double precision
) RETURNS SETOF holdfast.tick_line
LANGUAGE plpgsql AS $$
DECLARE
    done bigint[];
BEGIN
    IF array_position(p_seqs, NULL) IS NOT NULL THEN
        SELECT array_agg(coalesce(given.seq, ids.job) ORDER BY number) INTO p_seqs
        FROM unnest(p_seqs, p_ids) WITH ORDINALITY AS given (seq, id, number)
        LEFT JOIN holdfast.ids ON ids.id = given.id;
    END IF;

    -- What most reports are: complete, and in time.
    WITH moved AS (
        UPDATE holdfast.jobs SET
            status = 'complete', result = given.result, finished_at = t,
            progress = NULL, progress_note = NULL, worker_id = NULL, lease_expires_at = NULL,
            permit_generation = NULL, permit_trial = NULL, cancel_requested = false,
            previous_event = last_event, last_event = nextval('holdfast.event_sequence')
        FROM unnest(p_seqs, p_tokens, p_workers, p_outcomes, p_results, p_durations, p_metas)
            WITH ORDINALITY
            AS given (job, token, worker_id, outcome, result, duration, meta, number)
        WHERE coalesce(given.outcome, p_outcomes[1]) = 'complete'
            AND jobs.seq = given.job
            AND jobs.token = given.token
            AND jobs.status = 'processing'
            AND (t > jobs.deadline_at) IS NOT TRUE
        RETURNING
            given.number, seq, lane, kind, jobs.token, attempt_count, last_attempt_at, last_event,
            previous_event, coalesce(given.worker_id, p_workers[1]) AS worker_id, given.meta,
            coalesce(given.duration, greatest(0, t - last_attempt_at)) AS duration
    ), told AS (
        INSERT INTO holdfast.events (
            sequence, previous, job, at, started_at, duration, token, attempt, name, outcome,
            worker_id, meta
        )
        SELECT
            last_event, previous_event, seq, t, last_attempt_at, duration, token, attempt_count,
            'complete', 'complete', worker_id, meta
        FROM moved
    ), counted AS (
        INSERT INTO holdfast.counter_deltas (delta, family, a, b, c)
        SELECT place.sign * n, 'lane', lane::text, place.name, ''
        FROM (SELECT lane, count(*) AS n FROM moved GROUP BY lane) AS by_lane
        CROSS JOIN (VALUES (-1, 'processing'), (1, 'complete')) AS place (sign, name)
        UNION ALL
        SELECT count(*), 'outcome', kind, 'complete', attempt_count::text
        FROM moved
        GROUP BY kind, attempt_count
    )
    SELECT array_agg(number) INTO done FROM moved;

    IF coalesce(cardinality(done), 0) < cardinality(p_seqs) THEN
        RETURN QUERY SELECT * FROM holdfast.finish_others(
            p_seqs, p_tokens, p_workers, p_outcomes, p_results, p_codes, p_messages, p_groups,
            p_reasons, p_afters, p_durations, p_metas, coalesce(done, '{}'), p_timeout, t
        );
    END IF;
END
$$;

-- The same for all that is not simply complete, but for the reports in `done`.
CREATE FUNCTION holdfast.finish_others(
    p_seqs bigint[],
    p_tokens bigint[],
    p_workers text[],
    p_outcomes text[],
    p_results text[],
    p_codes text[],
    p_messages text[],
    p_groups text[],
    p_reasons text[],
    p_afters double precision[],
    p_durations double precision[],
    p_metas text[],
    done bigint[],
    p_timeout text[],
    t double precision
) RETURNS SETOF holdfast.tick_line
LANGUAGE plpgsql AS $$
DECLARE
    line holdfast.tick_line;
    report record;
    is_late boolean;
BEGIN
    FOR report IN
        WITH found AS MATERIALIZED (
            SELECT
                given.*, jobs.seq, jobs.lane, jobs.kind, jobs.attempt_count,
                jobs.last_attempt_at, jobs.cancel_requested,
                given.outcome <> 'cancelled' AND (t > jobs.deadline_at) IS TRUE AS past,
                given.outcome = 'retry' AND jobs.attempt_count >= jobs.max_attempts AS exhausted,
                given.outcome IN ('released', 'uncounted') AS gives_back
            FROM (
                SELECT
                    number, job, token, coalesce(worker_id, p_workers[1]) AS worker_id,
                    coalesce(outcome, p_outcomes[1]) AS outcome, code, message, error_group,
                    reason, after, duration, meta
                FROM unnest(
                    p_seqs, p_tokens, p_workers, p_outcomes, p_codes, p_messages, p_groups,
                    p_reasons, p_afters, p_durations, p_metas
                ) WITH ORDINALITY AS columns (
                    job, token, worker_id, outcome, code, message, error_group,
                    reason, after, duration, meta, number
                )
            ) AS given
            JOIN holdfast.jobs ON jobs.seq = given.job
            WHERE given.number <> ALL (done)
                AND jobs.token = given.token
                AND jobs.status = 'processing'
            ORDER BY jobs.seq
            FOR UPDATE OF jobs
        ), targeted AS (
            SELECT
                found.*,
                CASE outcome WHEN 'uncounted' THEN 'retry' ELSE outcome END AS told_as,
                CASE
                    WHEN past THEN 'failed'
                    WHEN outcome IN ('failed', 'cancelled') THEN outcome
                    WHEN cancel_requested THEN 'cancelled'
                    WHEN exhausted THEN 'failed'
                    ELSE 'queued'
                END AS target
            FROM found
        ), judged AS (
            SELECT
                number, seq, token, lane, kind, attempt_count, last_attempt_at, worker_id, outcome,
                meta, past, target, gives_back,
                CASE
                    WHEN past THEN 'TIMEOUT' WHEN target <> 'cancelled' THEN code
                END AS code,
                CASE
                    WHEN past THEN p_timeout[1] WHEN target <> 'cancelled' THEN message
                END AS message,
                CASE WHEN past THEN p_timeout[2] ELSE error_group END AS error_group,
                CASE
                    WHEN past THEN 'deadline'
                    WHEN outcome = 'retry' THEN 'attempts_exhausted'
                    ELSE reason
                END AS reason,
                CASE WHEN target = 'queued' THEN after END AS after,
                coalesce(duration, greatest(0, t - last_attempt_at)) AS duration,
                CASE WHEN target = 'queued' THEN told_as ELSE target END AS event,
                CASE
                    WHEN past THEN 'timeout' WHEN target = 'queued' THEN told_as ELSE target
                END AS ending
            FROM targeted
        ), moved AS (
            UPDATE holdfast.jobs SET
                status = target,
                ready = target = 'queued' AND after <= 0,
                -- Handed back at once, it keeps its old place.
                ready_at = CASE
                    WHEN target = 'queued' AND (outcome <> 'released' OR after > 0)
                        THEN t + greatest(after, 0)
                    ELSE ready_at
                END,
                queued_at = CASE WHEN target = 'queued' THEN t ELSE queued_at END,
                finished_at = CASE WHEN target <> 'queued' THEN t END,
                attempt_count = jobs.attempt_count - CASE
                    WHEN target = 'queued' AND gives_back THEN 1 ELSE 0
                END,
                progress = CASE WHEN target <> 'queued' THEN progress END,
                progress_note = CASE WHEN target <> 'queued' THEN progress_note END,
                error_code = CASE WHEN target = 'failed' THEN judged.code END,
                error_message = CASE WHEN target = 'failed' THEN judged.message END,
                error_group = CASE WHEN target = 'failed' THEN judged.error_group END,
                dead_letter = CASE WHEN target = 'failed' THEN judged.reason END,
                worker_id = NULL, lease_expires_at = NULL, permit_generation = NULL,
                permit_trial = NULL, cancel_requested = false,
                previous_event = last_event, last_event = nextval('holdfast.event_sequence')
            FROM judged
            WHERE jobs.seq = judged.seq
            RETURNING judged.*, last_event, previous_event, dead_letter, ready
        ), told AS (
            INSERT INTO holdfast.events (
                sequence, previous, job, at, started_at, duration, retry_after, token, attempt,
                name, outcome, worker_id, error_code, error_message, meta
            )
            SELECT
                last_event, previous_event, seq, t, last_attempt_at, duration,
                CASE WHEN ending = 'retry' THEN after END, token, attempt_count,
                event, ending, worker_id, code, message, meta
            FROM moved
        ), counted AS (
            INSERT INTO holdfast.counter_deltas (delta, family, a, b, c)
            SELECT -count(*), 'lane', lane::text, 'processing', '' FROM moved GROUP BY lane
            UNION ALL
            SELECT count(*), 'lane', lane::text, place, ''
            FROM (
                SELECT lane, CASE
                    WHEN ready THEN 'ready' WHEN target = 'queued' THEN 'scheduled' ELSE target
                END AS place
                FROM moved
            ) AS placed
            GROUP BY lane, place
            UNION ALL
            SELECT count(*), 'outcome', kind, target, attempt_count::text
            FROM moved
            WHERE target <> 'queued'
            GROUP BY kind, target, attempt_count
            UNION ALL
            SELECT count(*), 'dead', kind, code, error_group
            FROM moved
            WHERE dead_letter IS NOT NULL
            GROUP BY kind, code, error_group
            UNION ALL
            SELECT count(*), 'total', 'timed_out', '', '' FROM moved WHERE past HAVING count(*) > 0
        )
        SELECT
            number, outcome, target, past,
            past OR (outcome IN ('retry', 'uncounted', 'released') AND target <> 'queued') AS overruled
        FROM moved
        ORDER BY number
    LOOP
        done := done || report.number;
        IF report.past AND report.outcome = 'complete' THEN
            PERFORM holdfast.keep_late_result(
                p_seqs[report.number], p_tokens[report.number], p_results[report.number], t
            );
        END IF;
        IF report.overruled THEN
            line.what := report.target;
            line.number := report.number;
            RETURN NEXT line;
        END IF;
    END LOOP;

    -- The rest is refused.
    FOR number IN 1 .. cardinality(p_seqs) LOOP
        CONTINUE WHEN number = ANY (done);
        is_late := false;
        IF coalesce(p_outcomes[number], p_outcomes[1]) = 'complete' THEN
            SELECT true INTO is_late
            FROM holdfast.jobs
            WHERE seq = p_seqs[number]
                AND token = p_tokens[number]
                AND error_code = 'TIMEOUT';
        END IF;
        line.number := number;
        IF is_late THEN
            PERFORM holdfast.keep_late_result(
                p_seqs[number], p_tokens[number], p_results[number], t
            );
            line.what := 'late';
        ELSE
            INSERT INTO holdfast.counter_deltas (delta, family, a)
            VALUES (1, 'total', 'refused_writes');
            line.what := 'stale';
        END IF;
        RETURN NEXT line;
    END LOOP;
END
$$;
