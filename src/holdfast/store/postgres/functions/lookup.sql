-- The time, and the job with an id.

CREATE OR REPLACE FUNCTION holdfast.time_of(p_now double precision) RETURNS double precision
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(p_now, extract(epoch FROM clock_timestamp())::double precision)
$$;

-- Whether an id can have its place in a row, see holdfast.stems. (A regular expression costs as much
-- as to write the job.)
CREATE OR REPLACE FUNCTION holdfast.has_a_stem(p_id text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT length(p_id) = 32 AND translate(substr(p_id, 23, 4), '0123456789', '') = ''
$$;

-- The job that has an id; NULL where none has.
CREATE OR REPLACE FUNCTION holdfast.job_of(p_id text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    place bigint;
BEGIN
    IF holdfast.has_a_stem(p_id) THEN
        SELECT job + substr(p_id, 23, 4)::integer INTO place
        FROM holdfast.stems
        WHERE stem = left(p_id, 22);
        PERFORM FROM holdfast.jobs WHERE seq = place AND id = p_id;
        IF FOUND THEN
            RETURN place;
        END IF;
    END IF;
    RETURN (SELECT job FROM holdfast.ids WHERE id = p_id);
END
$$;

-- Lock a job by its id.
CREATE OR REPLACE FUNCTION holdfast.lock_job(p_id text) RETURNS holdfast.jobs
LANGUAGE sql VOLATILE AS $$
    SELECT * FROM holdfast.jobs WHERE seq = holdfast.job_of(p_id) FOR UPDATE
$$;
