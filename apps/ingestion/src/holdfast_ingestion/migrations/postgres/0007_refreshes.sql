-- The job of the last refresh until its outcome is noted, and how the last refresh failed, unless a good
-- one came after it.
ALTER TABLE ingestion.documents ADD COLUMN refresh_job text COLLATE "C";
ALTER TABLE ingestion.documents ADD COLUMN refresh_code text;
ALTER TABLE ingestion.documents ADD COLUMN refresh_error text;
ALTER TABLE ingestion.documents ADD COLUMN refresh_failed_at double precision;
CREATE INDEX documents_refreshing ON ingestion.documents (refresh_job) WHERE refresh_job IS NOT NULL;
