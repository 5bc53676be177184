-- The time, and the job with an id.

CREATE OR REPLACE FUNCTION holdfast.time_of(p_now double precision) RETURNS double precision
LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(p_now, extract(epoch FROM clock_timestamp())::double precision)
$$;

-- The job with an id; NULL where there is none.
CREATE OR REPLACE FUNCTION holdfast.job_of(p_id text) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT job FROM holdfast.ids WHERE id = p_id
$$;

-- Lock a job by its id.
CREATE OR REPLACE FUNCTION holdfast.lock_job(p_id text) RETURNS holdfast.jobs
LANGUAGE sql VOLATILE AS $$
    SELECT * FROM holdfast.jobs WHERE seq = holdfast.job_of(p_id) FOR UPDATE
$$;
