-- The first chunk of a document can be found by the document's title too.
ALTER TABLE ingestion.chunks ADD COLUMN title text;
UPDATE ingestion.chunks
SET title = (SELECT title FROM ingestion.documents WHERE id = chunks.document)
WHERE position = 0;

-- The words anew; those of the title have a weight of their own (C).
ALTER TABLE ingestion.chunks DROP COLUMN words;
ALTER TABLE ingestion.chunks ADD COLUMN words tsvector NOT NULL GENERATED ALWAYS AS (
    setweight(
        to_tsvector('ingestion.words'::regconfig, ingestion.separated(coalesce(title, ''))), 'C'
    ) || to_tsvector('ingestion.words'::regconfig, ingestion.separated(text))
) STORED;
CREATE INDEX chunks_words ON ingestion.chunks USING gin (words);
