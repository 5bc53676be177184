-- What the passages speak of: concepts, and how they are related.

-- Chunks whose concepts were extracted, and by what: a language model or a local library. All below
-- goes with its chunk.
CREATE TABLE ingestion_extractions (
    chunk  INTEGER PRIMARY KEY REFERENCES ingestion_chunks (id) ON DELETE CASCADE,
    source TEXT    NOT NULL
) STRICT;

-- A concept is what the mentions of one normalised name in an organisation have in common: `concept`
-- is a hash of both, see graph/concept_names.py. So concepts are merged across documents by grouping,
-- and one that nothing mentions any more is gone.
CREATE TABLE ingestion_mentions (
    chunk        INTEGER NOT NULL REFERENCES ingestion_extractions (chunk) ON DELETE CASCADE,
    concept      TEXT    NOT NULL,
    organisation TEXT    NOT NULL,
    document     TEXT    NOT NULL,
    normalised   TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    source       TEXT    NOT NULL,
    PRIMARY KEY (chunk, concept)
) STRICT, WITHOUT ROWID;
CREATE INDEX ingestion_mentions_by_concept
    ON ingestion_mentions (organisation, concept, document, name, normalised, source);

-- `label` says what `subject` is or does to `object`.
CREATE TABLE ingestion_relations (
    chunk        INTEGER NOT NULL REFERENCES ingestion_extractions (chunk) ON DELETE CASCADE,
    subject      TEXT    NOT NULL,
    object       TEXT    NOT NULL,
    label        TEXT    NOT NULL,
    organisation TEXT    NOT NULL,
    document     TEXT    NOT NULL,
    PRIMARY KEY (chunk, subject, object, label)
) STRICT, WITHOUT ROWID;
CREATE INDEX ingestion_relations_by_subject
    ON ingestion_relations (organisation, subject, object, label, document);
CREATE INDEX ingestion_relations_by_object
    ON ingestion_relations (organisation, object, subject, label, document);
