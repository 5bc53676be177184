-- The first chunk of a document can be found by the document's title too.
ALTER TABLE ingestion_chunks ADD COLUMN title TEXT;
UPDATE ingestion_chunks
SET title = (SELECT title FROM ingestion_documents WHERE id = ingestion_chunks.document)
WHERE position = 0;

-- The index anew: with titles, and with combining marks (M) as parts of words, as on PostgreSQL.
DROP TRIGGER ingestion_chunks_added;
DROP TRIGGER ingestion_chunks_deleted;
DROP TABLE ingestion_words;
CREATE VIRTUAL TABLE ingestion_words USING fts5 (
    title, text, content = 'ingestion_chunks', content_rowid = 'id',
    tokenize = "porter unicode61 remove_diacritics 0 categories 'L* N* Co M*'"
);
INSERT INTO ingestion_words (ingestion_words) VALUES ('rebuild');
CREATE TRIGGER ingestion_chunks_added AFTER INSERT ON ingestion_chunks BEGIN
    INSERT INTO ingestion_words (rowid, title, text) VALUES (new.id, new.title, new.text);
END;
CREATE TRIGGER ingestion_chunks_deleted AFTER DELETE ON ingestion_chunks BEGIN
    INSERT INTO ingestion_words (ingestion_words, rowid, title, text)
    VALUES ('delete', old.id, old.title, old.text);
END;
