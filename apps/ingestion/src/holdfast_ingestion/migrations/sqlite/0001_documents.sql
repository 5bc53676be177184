-- Documents, their chunks and the words of the chunks.
-- Times are epoch seconds; JSON is text.

-- One row per document. `status` is what is settled: a document that is not done or failed for good
-- belongs to its job `doc-<id>`, whose record says how far it is (see document_state.py). `token` is
-- the lease token of the last attempt that wrote the row, so that an attempt which lost its lease
-- changes nothing. `source_key` is a hash of what was given: the same twice is one document.
CREATE TABLE ingestion_documents (
    id                  TEXT    PRIMARY KEY,
    organisation        TEXT    NOT NULL,
    -- A part of the organisation, as the caller names it (`orgId`); '' for none.
    org_id              TEXT    NOT NULL DEFAULT '',
    owner               TEXT    NOT NULL,
    source_key          TEXT    NOT NULL,
    type                TEXT    NOT NULL,
    url                 TEXT,
    filename            TEXT,
    title               TEXT,
    media_type          TEXT,
    bytes               INTEGER,
    etag                TEXT,
    last_modified       TEXT,
    content             TEXT,
    content_hash        TEXT,
    metadata            TEXT    NOT NULL DEFAULT '{}',
    status              TEXT    NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'done', 'failed')),
    token               INTEGER NOT NULL DEFAULT 0,
    attempts            INTEGER NOT NULL DEFAULT 0,
    chunks              INTEGER NOT NULL DEFAULT 0,
    error_code          TEXT,
    error               TEXT,
    processing_metadata TEXT    NOT NULL DEFAULT '{}',
    created_at          REAL    NOT NULL,
    checked_at          REAL,
    finished_at         REAL,
    UNIQUE (organisation, source_key),
    CHECK ((status = 'failed') = (error IS NOT NULL))
) STRICT;
-- Ids grow with time, so this is also the order of creation.
CREATE INDEX ingestion_documents_listed ON ingestion_documents (organisation, id);
CREATE INDEX ingestion_documents_unsettled ON ingestion_documents (id) WHERE status = 'queued';

-- The top level of `metadata`, one row per key, to filter by: strings as they are, other values as
-- JSON.
CREATE TABLE ingestion_metadata (
    document TEXT NOT NULL,
    key      TEXT NOT NULL,
    value    TEXT NOT NULL,
    PRIMARY KEY (document, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX ingestion_metadata_by_value ON ingestion_metadata (key, value, document);

-- Pieces of a document's content, in order and with overlap. The offsets count characters.
CREATE TABLE ingestion_chunks (
    -- Never given twice: a job that works on a replaced chunk must not meet another one.
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    document     TEXT    NOT NULL,
    position     INTEGER NOT NULL,
    start_offset INTEGER NOT NULL,
    end_offset   INTEGER NOT NULL,
    text         TEXT    NOT NULL,
    UNIQUE (document, position)
) STRICT;

-- The words of the chunks. It holds no text of its own: it reads that of ingestion_chunks.
CREATE VIRTUAL TABLE ingestion_words USING fts5 (
    text, content = 'ingestion_chunks', content_rowid = 'id',
    tokenize = 'porter unicode61 remove_diacritics 0'
);
CREATE TRIGGER ingestion_chunks_added AFTER INSERT ON ingestion_chunks BEGIN
    INSERT INTO ingestion_words (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER ingestion_chunks_deleted AFTER DELETE ON ingestion_chunks BEGIN
    INSERT INTO ingestion_words (ingestion_words, rowid, text) VALUES ('delete', old.id, old.text);
END;
