-- Documents, their chunks and the words of the chunks.
-- Times are epoch seconds; JSON is text. Indexed text is compared byte by byte (COLLATE "C").
CREATE SCHEMA ingestion;

-- One row per document. `status` is what is settled: a document that is not done or failed for good
-- belongs to its job `doc-<id>`, whose record says how far it is (see document_state.py). `token` is
-- the lease token of the last attempt that wrote the row, so that an attempt which lost its lease
-- changes nothing. `source_key` is a hash of what was given: the same twice is one document.
CREATE TABLE ingestion.documents (
    id                  text    COLLATE "C" PRIMARY KEY,
    organisation        text    COLLATE "C" NOT NULL,
    -- A part of the organisation, as the caller names it (`orgId`); '' for none.
    org_id              text    COLLATE "C" NOT NULL DEFAULT '',
    owner               text    NOT NULL,
    source_key          text    COLLATE "C" NOT NULL,
    type                text    COLLATE "C" NOT NULL,
    url                 text,
    filename            text,
    title               text,
    media_type          text,
    bytes               bigint,
    etag                text,
    last_modified       text,
    content             text,
    content_hash        text,
    metadata            text    NOT NULL DEFAULT '{}',
    status              text    COLLATE "C" NOT NULL DEFAULT 'queued'
                                CHECK (status IN ('queued', 'done', 'failed')),
    token               bigint  NOT NULL DEFAULT 0,
    attempts            integer NOT NULL DEFAULT 0,
    chunks              integer NOT NULL DEFAULT 0,
    error_code          text,
    error               text,
    processing_metadata text    NOT NULL DEFAULT '{}',
    created_at          double precision NOT NULL,
    checked_at          double precision,
    finished_at         double precision,
    UNIQUE (organisation, source_key),
    CHECK ((status = 'failed') = (error IS NOT NULL))
);
-- Ids grow with time, so this is also the order of creation.
CREATE INDEX documents_listed ON ingestion.documents (organisation, id);
CREATE INDEX documents_unsettled ON ingestion.documents (id) WHERE status = 'queued';

-- The top level of `metadata`, one row per key, to filter by: strings as they are, other values as
-- JSON.
CREATE TABLE ingestion.metadata (
    document text COLLATE "C" NOT NULL,
    key      text COLLATE "C" NOT NULL,
    value    text COLLATE "C" NOT NULL,
    PRIMARY KEY (document, key)
);
CREATE INDEX metadata_by_value ON ingestion.metadata (key, value, document);

-- English stems, as on SQLite, but no stop words: a sentence is found by all of its words.
CREATE TEXT SEARCH DICTIONARY ingestion.stem (TEMPLATE = snowball, LANGUAGE = english);
CREATE TEXT SEARCH CONFIGURATION ingestion.words (COPY = simple);
ALTER TEXT SEARCH CONFIGURATION ingestion.words
    ALTER MAPPING FOR asciiword, word, asciihword, hword, hword_asciipart, hword_part
    WITH ingestion.stem;

-- A text with a blank for each character that separates words. PostgreSQL's own parser would take a
-- path or a host name for one word, which nobody searches for as a whole. The characters are listed:
-- what a class such as [:alnum:] means depends on the locale of the database.
CREATE FUNCTION ingestion.separated(text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT regexp_replace(
        $1,
        '[\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8'
        '\u00bb\u00bf\u00d7\u00f7\u2000-\u206f\u2190-\u2bff\u3000-\u3003\u3008-\u301f\ufeff'
        '\uff01-\uff0f\uff1a-\uff20]',
        ' ', 'g'
    )
$$;

-- Pieces of a document's content, in order and with overlap. The offsets count characters.
CREATE TABLE ingestion.chunks (
    id           bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    document     text    COLLATE "C" NOT NULL,
    position     integer NOT NULL,
    start_offset integer NOT NULL,
    end_offset   integer NOT NULL,
    text         text    NOT NULL,
    words        tsvector NOT NULL GENERATED ALWAYS AS (
        to_tsvector('ingestion.words'::regconfig, ingestion.separated(text))
    ) STORED,
    UNIQUE (document, position)
);
CREATE INDEX chunks_words ON ingestion.chunks USING gin (words);
