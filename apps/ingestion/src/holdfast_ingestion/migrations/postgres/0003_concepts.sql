-- What the passages speak of: concepts, and how they are related.

-- Chunks whose concepts were extracted, and by what: a language model or a local library. All below
-- goes with its chunk.
CREATE TABLE ingestion.extractions (
    chunk  bigint PRIMARY KEY REFERENCES ingestion.chunks (id) ON DELETE CASCADE,
    source text   COLLATE "C" NOT NULL
);

-- A concept is what the mentions of one normalised name in an organisation have in common: `concept`
-- is a hash of both, see graph/concept_names.py. So concepts are merged across documents by grouping,
-- and one that nothing mentions any more is gone.
CREATE TABLE ingestion.mentions (
    chunk        bigint NOT NULL REFERENCES ingestion.extractions (chunk) ON DELETE CASCADE,
    concept      text   COLLATE "C" NOT NULL,
    organisation text   COLLATE "C" NOT NULL,
    document     text   COLLATE "C" NOT NULL,
    normalised   text   COLLATE "C" NOT NULL,
    name         text   COLLATE "C" NOT NULL,
    source       text   COLLATE "C" NOT NULL,
    PRIMARY KEY (chunk, concept)
);
CREATE INDEX mentions_by_concept
    ON ingestion.mentions (organisation, concept, document, name, normalised, source);

-- `label` says what `subject` is or does to `object`.
CREATE TABLE ingestion.relations (
    chunk        bigint NOT NULL REFERENCES ingestion.extractions (chunk) ON DELETE CASCADE,
    subject      text   COLLATE "C" NOT NULL,
    object       text   COLLATE "C" NOT NULL,
    label        text   COLLATE "C" NOT NULL,
    organisation text   COLLATE "C" NOT NULL,
    document     text   COLLATE "C" NOT NULL,
    PRIMARY KEY (chunk, subject, object, label)
);
CREATE INDEX relations_by_subject
    ON ingestion.relations (organisation, subject, object, label, document);
CREATE INDEX relations_by_object
    ON ingestion.relations (organisation, object, subject, label, document);
