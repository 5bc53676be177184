-- Changes that people, handlers and maintenance ask for. Each function locks its jobs first.

-- Move an uploaded job to queued, or to failed, where `p_error` is code, message and group.
CREATE OR REPLACE FUNCTION holdfast.leave_uploaded(
    p_id text, p_target holdfast.status, p_error text[], p_now double precision
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    t double precision := holdfast.time_of(p_now);
    job holdfast.jobs := holdfast.lock_job(p_id);
    move holdfast.move;
BEGIN
    IF job.seq IS NULL THEN
        RETURN 'missing';
    ELSIF job.status <> 'uploaded' THEN
        RETURN 'refused';
    END IF;
    move.job := job.seq;
    move.target := p_target;
    move.name := p_target;
    move.code := p_error[1];
    move.message := p_error[2];
    move.error_group := p_error[3];
    move.ready_at := greatest(job.ready_at, t);
    PERFORM holdfast.move(ARRAY[move], t);
    RETURN 'done';
END
$$;

CREATE OR REPLACE FUNCTION holdfast.cancel(p_id text, p_now double precision) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    t double precision := holdfast.time_of(p_now);
    job holdfast.jobs := holdfast.lock_job(p_id);
    move holdfast.move;
BEGIN
    IF job.seq IS NULL THEN
        RETURN 'missing';
    ELSIF job.status = 'cancelled' THEN
        RETURN 'done';
    ELSIF job.finished_at IS NOT NULL THEN
        RETURN 'refused';
    ELSIF job.status = 'processing' THEN
        IF NOT job.cancel_requested THEN
            UPDATE holdfast.jobs SET cancel_requested = true WHERE seq = job.seq;
            PERFORM holdfast.note_cancel_request(job.worker_id, job.seq);
            PERFORM holdfast.add_event(job.seq, 'cancel_requested', NULL, t);
        END IF;
        RETURN 'requested';
    END IF;
    move.job := job.seq;
    move.target := 'cancelled';
    move.name := 'cancelled';
    PERFORM holdfast.move(ARRAY[move], t);
    RETURN 'done';
END
$$;

-- Make a scheduled job ready, with its event and counters; the caller has locked it.
CREATE OR REPLACE FUNCTION holdfast.make_ready(p_seq bigint, t double precision) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    its_lane integer;
BEGIN
    UPDATE holdfast.jobs SET ready = true, ready_at = t WHERE seq = p_seq RETURNING lane INTO its_lane;
    PERFORM holdfast.add_event(p_seq, 'expedited', NULL, t);
    INSERT INTO holdfast.counter_deltas (delta, family, a, b)
    VALUES (-1, 'lane', its_lane, 'scheduled'), (1, 'lane', its_lane, 'ready');
END
$$;

-- Make a queued job that waits for its time ready at once; one that is due keeps its place.
CREATE OR REPLACE FUNCTION holdfast.expedite(p_id text, p_now double precision) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    t double precision := holdfast.time_of(p_now);
    job holdfast.jobs := holdfast.lock_job(p_id);
BEGIN
    IF job.seq IS NULL THEN
        RETURN 'missing';
    ELSIF job.status <> 'queued' THEN
        RETURN 'refused';
    ELSIF NOT job.ready AND job.ready_at > t THEN
        PERFORM holdfast.make_ready(job.seq, t);
    END IF;
    RETURN 'done';
END
$$;

-- Make the jobs of failed trials ready: their downstream's breaker has closed. One that was asked to
-- wait longer, until its p_not_before, does so. Jobs that have run since are left alone, and so are
-- locked ones: jobs are locked before downstreams, so waiting for a job here could deadlock.
CREATE OR REPLACE FUNCTION holdfast.release_trials(
    p_ids text[], p_tokens bigint[], p_not_before double precision[], p_now double precision
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    t double precision := holdfast.time_of(p_now);
    seqs bigint[] := ARRAY(SELECT holdfast.job_of(given.id) FROM unnest(p_ids) AS given (id));
    waiting record;
BEGIN
    FOR waiting IN
        SELECT jobs.seq, given.not_before
        FROM unnest(seqs, p_tokens, p_not_before) AS given (seq, token, not_before)
        JOIN holdfast.jobs ON jobs.seq = given.seq
        WHERE jobs.token = given.token
            AND jobs.status = 'queued'
            AND NOT jobs.ready
            AND jobs.ready_at > greatest(given.not_before, t)
        ORDER BY jobs.seq
        FOR UPDATE OF jobs SKIP LOCKED
    LOOP
        IF waiting.not_before <= t THEN
            PERFORM holdfast.make_ready(waiting.seq, t);
        ELSE
            UPDATE holdfast.jobs SET ready_at = waiting.not_before WHERE seq = waiting.seq;
        END IF;
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION holdfast.retry_one(p_id text, t double precision) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    job holdfast.jobs := holdfast.lock_job(p_id);
BEGIN
    IF job.seq IS NULL THEN
        RETURN 'missing';
    ELSIF job.status <> 'failed' THEN
        RETURN 'refused';
    END IF;
    IF job.dedup_unfinished IS NOT NULL THEN
        PERFORM holdfast.release_dedup_keys(
            ARRAY[job.id], ARRAY[job.kind], ARRAY[job.dedup_key], ARRAY[job.dedup_unfinished],
            ARRAY[job.dedup_seconds], t
        );
    END IF;
    BEGIN
        UPDATE holdfast.jobs SET
            status = 'queued', ready = true, ready_at = t, queued_at = t,
            attempt_count = 0, manual_retry_count = manual_retry_count + 1, started_at = NULL,
            last_attempt_at = NULL, finished_at = NULL,
            deadline_at = CASE WHEN deadline_at < t THEN NULL ELSE deadline_at END,
            progress = NULL, progress_note = NULL, error_code = NULL, error_message = NULL,
            error_group = NULL, dead_letter = NULL, lost_worker = false
        WHERE seq = job.seq;
    EXCEPTION WHEN unique_violation THEN
        -- The key belongs to another job by now.
        RETURN 'twin';
    END;
    PERFORM holdfast.add_event(job.seq, 'manual_retry', NULL, t);
    PERFORM holdfast.count_total('manual_retries', 1);
    INSERT INTO holdfast.counter_deltas (delta, family, a, b)
    VALUES (-1, 'lane', job.lane, 'failed'), (1, 'lane', job.lane, 'ready');
    IF job.dead_letter IS NOT NULL THEN
        INSERT INTO holdfast.counter_deltas (delta, family, a, b, c)
        VALUES (-1, 'dead', job.kind, job.error_code, job.error_group);
    END IF;
    RETURN 'done';
END
$$;

-- Retry failed jobs, and return what became of each. All are locked first, in the order of their ids,
-- as every function does that locks several. Then they are retried in the order given: of two jobs with
-- the same dedup key the first one runs.
CREATE OR REPLACE FUNCTION holdfast.retry(p_ids text[], p_now double precision) RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
    t double precision := holdfast.time_of(p_now);
    answers text[] := array_fill('missing'::text, ARRAY[cardinality(p_ids)]);
    given text;
BEGIN
    FOR given IN SELECT DISTINCT id COLLATE "C" FROM unnest(p_ids) AS given (id) ORDER BY 1 LOOP
        PERFORM holdfast.lock_job(given);
    END LOOP;
    FOR number IN 1 .. cardinality(p_ids) LOOP
        answers[number] := holdfast.retry_one(p_ids[number], t);
    END LOOP;
    RETURN answers;
END
$$;

CREATE OR REPLACE FUNCTION holdfast.discard(p_ids text[], p_now double precision) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    t double precision := holdfast.time_of(p_now);
    job holdfast.jobs;
    given text;
    discarded integer := 0;
BEGIN
    FOR given IN SELECT DISTINCT id COLLATE "C" FROM unnest(p_ids) AS given (id) ORDER BY 1 LOOP
        job := holdfast.lock_job(given);
        CONTINUE WHEN job.dead_letter IS NULL;
        UPDATE holdfast.jobs SET dead_letter = NULL WHERE seq = job.seq;
        PERFORM holdfast.add_event(job.seq, 'discarded', NULL, t);
        INSERT INTO holdfast.counter_deltas (delta, family, a, b, c)
        VALUES (-1, 'dead', job.kind, job.error_code, job.error_group);
        discarded := discarded + 1;
    END LOOP;
    RETURN discarded;
END
$$;

-- Store how far a worker is with a job, if it still has it.
CREATE OR REPLACE FUNCTION holdfast.progress(
    p_id text,
    p_token bigint,
    p_worker text,
    p_progress double precision,
    p_note text,
    p_meta text,
    p_now double precision
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    moved bigint;
BEGIN
    UPDATE holdfast.jobs SET progress = p_progress, progress_note = p_note
    WHERE seq = holdfast.job_of(p_id)
        AND status = 'processing'
        AND token = p_token
        AND (worker_id <> p_worker) IS NOT TRUE
    RETURNING seq INTO moved;
    IF moved IS NULL THEN
        PERFORM holdfast.count_refused_writes(ARRAY[p_id], ARRAY[p_token]);
        RETURN false;
    END IF;
    IF p_meta IS NOT NULL THEN
        PERFORM holdfast.add_event(moved, 'progress', p_meta, holdfast.time_of(p_now));
    END IF;
    RETURN true;
END
$$;

-- The same for workers of the release before, which do not say who they are.
CREATE OR REPLACE FUNCTION holdfast.progress(
    p_id text,
    p_token bigint,
    p_progress double precision,
    p_note text,
    p_meta text,
    p_now double precision
) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT holdfast.progress(p_id, p_token, NULL, p_progress, p_note, p_meta, p_now)
$$;
