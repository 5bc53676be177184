-- Whether the caller has given the title, which is then kept whatever the document calls itself.
ALTER TABLE ingestion_documents ADD COLUMN title_given INTEGER NOT NULL DEFAULT 0
    CHECK (title_given IN (0, 1));
