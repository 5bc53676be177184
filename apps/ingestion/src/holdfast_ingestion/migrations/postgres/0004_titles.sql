-- Whether the caller has given the title, which is then kept whatever the document calls itself.
ALTER TABLE ingestion.documents ADD COLUMN title_given boolean NOT NULL DEFAULT false;
