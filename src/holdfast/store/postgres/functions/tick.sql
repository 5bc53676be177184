-- One tick of a worker in one round trip: record what finished, then claim.

-- Reports may be empty; nothing is claimed where `most` of the request is NULL. `p_names` and
-- `p_versions` are downstreams whose breakers the reports do not change at that version. `p_tracebacks` has
-- one element per report, or is NULL.
CREATE OR REPLACE FUNCTION holdfast.report_and_claim(
    p_names text[],
    p_versions bigint[],
    p_reports holdfast.reports,
    p_tracebacks text[],
    p_worker text,
    p_request holdfast.claim_request,
    p_timeout text[],
    p_now double precision
) RETURNS SETOF holdfast.tick_answer
LANGUAGE plpgsql AS $$
DECLARE
    line holdfast.tick_answer;
    t double precision := holdfast.time_of(p_now);
    done bigint[];
BEGIN
    line.what := 'now';
    line.at := t;
    RETURN NEXT line;
    IF p_names <> '{}' THEN
        PERFORM FROM unnest(p_names, p_versions) AS known (name, version)
        LEFT JOIN holdfast.downstreams ON downstreams.name = known.name
        WHERE downstreams.version IS DISTINCT FROM known.version;
        IF FOUND THEN
            line.what := 'outdated';
            RETURN NEXT line;
            RETURN;
        END IF;
    END IF;
    IF p_reports.seqs <> '{}' THEN
        IF array_position(p_reports.seqs, NULL) IS NOT NULL THEN
            SELECT array_agg(coalesce(seq, holdfast.job_of(id)) ORDER BY number)
            INTO p_reports.seqs
            FROM unnest(p_reports.seqs, p_reports.ids)
                WITH ORDINALITY AS given (seq, id, number);
        END IF;
        done := holdfast.complete(p_reports, t);
        IF cardinality(done) < cardinality(p_reports.seqs) THEN
            RETURN QUERY
            SELECT
                others.*,
                NULL::smallint[], NULL::double precision[], NULL::text[], NULL::text[], NULL::text[]
            FROM holdfast.finish_others(p_reports, p_tracebacks, done, p_timeout, t) AS others;
        END IF;
    END IF;
    IF p_request.most IS NOT NULL THEN
        RETURN QUERY SELECT * FROM holdfast.claim(p_worker, p_request, p_timeout, t);
    END IF;
END
$$;

-- The same without tracebacks, for workers of the release before.
CREATE OR REPLACE FUNCTION holdfast.report_and_claim(
    p_names text[],
    p_versions bigint[],
    p_reports holdfast.reports,
    p_worker text,
    p_request holdfast.claim_request,
    p_timeout text[],
    p_now double precision
) RETURNS SETOF holdfast.tick_answer
LANGUAGE sql VOLATILE AS $$
    SELECT *
    FROM holdfast.report_and_claim(
        p_names, p_versions, p_reports, NULL, p_worker, p_request, p_timeout, p_now
    )
$$;

-- For workers that pass untyped rows: an overload with as many parameters would be ambiguous to them.
CREATE OR REPLACE FUNCTION holdfast.tick(
    p_names text[],
    p_versions bigint[],
    p_reports holdfast.reports,
    p_worker text,
    p_request holdfast.request,
    p_timeout text[],
    p_now double precision
) RETURNS SETOF holdfast.tick_line
LANGUAGE sql AS $$
    SELECT
        what, number, at, id, seqs, ids, tokens, lanes, attempts, max_attempts, created_ats,
        deadlines, generations, owners, metas, arguments
    FROM holdfast.report_and_claim(
        p_names, p_versions, p_reports, NULL, p_worker,
        ROW(
            (p_request).queues, (p_request).kinds, (p_request).limited, (p_request).most,
            (p_request).lease, (p_request).after, NULL, NULL, NULL, NULL, NULL, NULL, NULL
        )::holdfast.claim_request,
        p_timeout, p_now
    )
    WHERE what NOT IN ('scanned', 'idle', 'lanes')
$$;
