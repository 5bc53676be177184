-- The first half of a worker's tick: record the attempts that have ended.
--
-- A report is compared with its job by seq, token, worker and id. Seq and token alone do not tell jobs
-- apart after a failover to a standby that had not received the last commits: it gives the same
-- numbers again, to other jobs. Reports of a worker of the release before may come without ids.
--
-- Workers are compared by IS NOT DISTINCT FROM, so that jobs are looked up by seq. With = PostgreSQL may
-- read the index of running jobs instead, which is empty in its statistics if none ran during the last
-- vacuum, and compare each running job with each report.

-- Record the most common reports: complete, in time, of a job that is processing under their token.
-- Returns the positions of the reports that were accepted.
CREATE OR REPLACE FUNCTION holdfast.complete(
    p_reports holdfast.reports,
    t double precision,
    OUT done bigint[]
)
LANGUAGE plpgsql AS $$
DECLARE
    lanes integer[];
    page holdfast.history;
    -- Where only the job and the duration differ, little is joined and returned.
    uniform boolean := cardinality(p_reports.tokens) = 1
        AND cardinality(p_reports.workers) = 1
        AND p_reports.outcomes = '{complete}'
        AND p_reports.durations IS NOT NULL
        AND array_position(p_reports.durations, NULL) IS NULL
        AND num_nonnulls(p_reports.results, p_reports.metas) = 0;
BEGIN
    -- Not a subquery of the UPDATE: where a heartbeat has just written to a job, PostgreSQL evaluates
    -- the row again, and the subquery with it, which would give the job a page of its own.
    page.sequence := holdfast.next_page();
    page.workers := p_reports.workers;
    IF uniform THEN
        WITH moved AS (
            UPDATE holdfast.jobs SET
                status = 'complete', finished_at = t, progress = NULL,
                progress_note = NULL, worker_id = NULL, lease_expires_at = NULL,
                permit_generation = NULL, permit_trial = NULL, cancel_requested = false,
                previous_event = last_event, last_event = page.sequence
            FROM unnest(p_reports.seqs, p_reports.ids) AS given (job, job_id)
            WHERE seq = given.job
                AND token = p_reports.tokens[1]
                AND worker_id IS NOT DISTINCT FROM p_reports.workers[1]
                AND (id <> given.job_id) IS NOT TRUE
                AND status = 'processing'
                AND (t > deadline_at) IS NOT TRUE
            RETURNING seq, attempt_count, last_attempt_at, previous_event, lane
        )
        SELECT
            array_agg(seq), array_agg(attempt_count), array_agg(last_attempt_at),
            array_agg(previous_event), array_agg(lane)
        INTO page.jobs, page.attempts, page.started_ats, page.previous, lanes
        FROM moved;
        -- Counted as none where none was accepted: an array of unknown length is an error.
        page.tokens := array_fill(
            p_reports.tokens[1], ARRAY[coalesce(cardinality(page.jobs), 0)]
        );
        IF page.jobs = p_reports.seqs THEN
            done := ARRAY(SELECT generate_series(1, cardinality(p_reports.seqs)));
            page.durations := p_reports.durations;
        ELSE
            done := ARRAY(SELECT array_position(p_reports.seqs, job) FROM unnest(page.jobs) AS job);
            page.durations := ARRAY(SELECT p_reports.durations[number] FROM unnest(done) AS number);
        END IF;
    ELSE
        WITH moved AS (
            UPDATE holdfast.jobs SET
                status = 'complete', result = given.result, finished_at = t,
                progress = NULL, progress_note = NULL, worker_id = NULL, lease_expires_at = NULL,
                permit_generation = NULL, permit_trial = NULL, cancel_requested = false,
                previous_event = last_event, last_event = page.sequence
            FROM unnest(
                p_reports.seqs, p_reports.ids, p_reports.tokens, p_reports.workers,
                p_reports.outcomes, p_reports.results, p_reports.durations, p_reports.metas
            ) WITH ORDINALITY AS given (
                job, job_id, token, worker_id, outcome, result, duration, meta, number
            )
            WHERE coalesce(given.outcome, p_reports.outcomes[1]) = 'complete'
                AND jobs.seq = given.job
                AND jobs.token = coalesce(given.token, p_reports.tokens[1])
                AND jobs.worker_id IS NOT DISTINCT FROM coalesce(given.worker_id, p_reports.workers[1])
                AND (jobs.id <> given.job_id) IS NOT TRUE
                AND jobs.status = 'processing'
                AND (t > jobs.deadline_at) IS NOT TRUE
            RETURNING
                given.number, seq, lane, jobs.token, attempt_count, last_attempt_at,
                previous_event, given.meta,
                coalesce(given.worker_id, p_reports.workers[1]) AS worker_id,
                coalesce(given.duration, greatest(0, t - last_attempt_at)) AS duration
        )
        SELECT
            array_agg(number), array_agg(seq), array_agg(token), array_agg(attempt_count),
            array_agg(last_attempt_at), array_agg(previous_event), array_agg(lane),
            array_agg(duration),
            CASE WHEN cardinality(p_reports.workers) = 1
                THEN p_reports.workers ELSE array_agg(worker_id)
            END,
            CASE WHEN p_reports.metas IS NOT NULL THEN array_agg(meta) END
        INTO
            done, page.jobs, page.tokens, page.attempts, page.started_ats, page.previous, lanes,
            page.durations, page.workers, page.metas
        FROM moved;
    END IF;
    IF page.jobs IS NULL THEN
        done := '{}';
        RETURN;
    END IF;
    page.at := t;
    page.name := 'complete';
    page.outcome := 'complete';
    INSERT INTO holdfast.history SELECT page.*;
    WITH by_lane AS (
        SELECT counts.lane, lanes.kind, counts.attempt_count, counts.n
        FROM (
            SELECT given.lane, given.attempt_count, count(*) AS n
            FROM unnest(lanes, page.attempts) AS given (lane, attempt_count)
            GROUP BY given.lane, given.attempt_count
        ) AS counts
        JOIN holdfast.lanes ON lanes.id = counts.lane
    ), listed AS (
        INSERT INTO holdfast.completed (kind, page) SELECT DISTINCT kind, page.sequence FROM by_lane
    )
    INSERT INTO holdfast.counter_deltas (delta, family, a, b, c)
    SELECT sign * n, family, a, b, c
    FROM by_lane
    CROSS JOIN LATERAL (
        VALUES
            (-1, 'lane', lane::text, 'processing', ''),
            (1, 'lane', lane::text, 'complete', ''),
            (1, 'outcome', kind, 'complete', attempt_count::text)
    ) AS changes (sign, family, a, b, c);
END
$$;

-- Refuse the reports whose positions are not in `done`; a result after TIMEOUT is stored as late.
CREATE OR REPLACE FUNCTION holdfast.refuse_reports(
    p_reports holdfast.reports, done bigint[], t double precision
) RETURNS SETOF holdfast.tick_line
LANGUAGE plpgsql AS $$
DECLARE
    line holdfast.tick_line;
BEGIN
    FOR line.number, line.what IN
        SELECT given.number, CASE WHEN jobs.seq IS NULL THEN 'stale' ELSE 'late' END
        FROM unnest(p_reports.seqs, p_reports.ids, p_reports.tokens, p_reports.outcomes)
            WITH ORDINALITY AS given (job, job_id, token, outcome, number)
        LEFT JOIN holdfast.jobs
            ON jobs.seq = given.job
            AND jobs.token = coalesce(given.token, p_reports.tokens[1])
            AND (jobs.id <> given.job_id) IS NOT TRUE
            AND jobs.error_code = 'TIMEOUT'
            AND coalesce(given.outcome, p_reports.outcomes[1]) = 'complete'
        WHERE given.number <> ALL (done)
        ORDER BY given.number
    LOOP
        IF line.what = 'late' THEN
            PERFORM holdfast.keep_late_result(
                p_reports.seqs[line.number],
                coalesce(p_reports.tokens[line.number], p_reports.tokens[1]),
                p_reports.results[line.number], t
            );
        ELSE
            PERFORM holdfast.count_total('refused_writes', 1);
        END IF;
        RETURN NEXT line;
    END LOOP;
END
$$;

-- Record the other reports, those whose positions are not in `done`. A report is accepted if its job
-- is processing under its token and worker, else refused. A passed deadline overrules the report, and
-- a request to cancel overrules a retry. `p_tracebacks` has one element per report, or is NULL.
CREATE OR REPLACE FUNCTION holdfast.finish_others(
    p_reports holdfast.reports,
    p_tracebacks text[],
    done bigint[],
    p_timeout text[],
    t double precision
) RETURNS SETOF holdfast.tick_line
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    line holdfast.tick_line;
    moves holdfast.move[] := '{}';
    tracebacks text[] := '{}';
    late bigint[] := '{}';
    timed_out bigint := 0;
    report record;
    number bigint;
BEGIN
    FOR report IN
        WITH found AS MATERIALIZED (
            SELECT
                given.*, jobs.seq, jobs.kind, jobs.cancel_requested,
                jobs.attempt_count >= jobs.max_attempts AS exhausted,
                given.outcome <> 'cancelled' AND (t > jobs.deadline_at) IS TRUE AS past
            FROM (
                SELECT
                    number, job, job_id, coalesce(token, p_reports.tokens[1]) AS token,
                    coalesce(worker_id, p_reports.workers[1]) AS worker_id,
                    coalesce(outcome, p_reports.outcomes[1]) AS outcome, code, message,
                    error_group, reason, after, duration, meta
                FROM unnest(
                    p_reports.seqs, p_reports.ids, p_reports.tokens, p_reports.workers,
                    p_reports.outcomes, p_reports.codes, p_reports.messages, p_reports.groups,
                    p_reports.reasons, p_reports.delays, p_reports.durations, p_reports.metas
                ) WITH ORDINALITY AS columns (
                    job, job_id, token, worker_id, outcome, code, message, error_group, reason,
                    after, duration, meta, number
                )
            ) AS given
            JOIN holdfast.jobs ON jobs.seq = given.job
            WHERE given.number <> ALL (done)
                AND jobs.token = given.token
                AND jobs.worker_id IS NOT DISTINCT FROM given.worker_id
                AND (jobs.id <> given.job_id) IS NOT TRUE
                AND jobs.status = 'processing'
            ORDER BY jobs.seq
            FOR UPDATE OF jobs
        ), judged AS (
            SELECT DISTINCT ON (seq)
                found.*,
                CASE
                    WHEN past THEN 'failed'
                    WHEN outcome IN ('failed', 'cancelled') THEN outcome
                    WHEN cancel_requested THEN 'cancelled'
                    WHEN outcome = 'retry' AND exhausted THEN 'failed'
                    ELSE 'queued'
                END AS target,
                CASE outcome WHEN 'uncounted' THEN 'retry' ELSE outcome END AS event_name
            FROM found
            ORDER BY seq, number
        )
        SELECT
            number, outcome, target, past, ROW(
                seq, target,
                CASE target WHEN 'queued' THEN event_name ELSE target END,
                CASE WHEN past THEN 'timeout' WHEN target = 'queued' THEN event_name ELSE target END,
                CASE WHEN past THEN 'TIMEOUT' WHEN target <> 'cancelled' THEN code END,
                CASE WHEN past THEN p_timeout[1] WHEN target <> 'cancelled' THEN message END,
                CASE WHEN past THEN p_timeout[2] ELSE error_group END,
                CASE
                    WHEN outcome <> 'retry' AND NOT past THEN reason
                    WHEN target = 'failed' AND holdfast.has_dead_letters(kind)
                        THEN CASE WHEN past THEN 'deadline' ELSE 'attempts_exhausted' END
                END,
                -- A job that was released without delay keeps its place in the queue.
                CASE WHEN target = 'queued' AND (outcome <> 'released' OR after > 0)
                    THEN t + greatest(after, 0)
                END,
                CASE WHEN target = 'queued' AND event_name = 'retry' THEN after END,
                target = 'queued' AND outcome IN ('released', 'uncounted'),
                duration, meta
            )::holdfast.move AS move
        FROM judged
        ORDER BY number
    LOOP
        moves := moves || report.move;
        tracebacks := tracebacks || p_tracebacks[report.number];
        done := done || report.number;
        IF report.past THEN
            timed_out := timed_out + 1;
        END IF;
        IF report.past AND report.outcome = 'complete' THEN
            late := late || report.number;
        END IF;
        IF report.past OR (report.target <> 'queued' AND report.outcome <> report.target) THEN
            line.what := report.target;
            line.number := report.number;
            RETURN NEXT line;
        END IF;
    END LOOP;
    PERFORM holdfast.move(moves, tracebacks, t);
    IF timed_out > 0 THEN
        PERFORM holdfast.count_total('timed_out', timed_out);
    END IF;

    FOREACH number IN ARRAY late LOOP
        PERFORM holdfast.keep_late_result(
            p_reports.seqs[number], coalesce(p_reports.tokens[number], p_reports.tokens[1]),
            p_reports.results[number], t
        );
    END LOOP;
    RETURN QUERY SELECT * FROM holdfast.refuse_reports(p_reports, done, t);
END
$$;

-- The same without tracebacks, for calls of holdfast.report_and_claim that began before a migration.
CREATE OR REPLACE FUNCTION holdfast.finish_others(
    p_reports holdfast.reports, done bigint[], p_timeout text[], t double precision
) RETURNS SETOF holdfast.tick_line
LANGUAGE sql VOLATILE AS $$
    SELECT * FROM holdfast.finish_others(p_reports, NULL, done, p_timeout, t)
$$;
