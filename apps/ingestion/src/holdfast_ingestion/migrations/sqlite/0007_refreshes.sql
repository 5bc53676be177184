-- The job of the last refresh until its outcome is noted, and how the last refresh failed, unless a good
-- one came after it.
ALTER TABLE ingestion_documents ADD COLUMN refresh_job TEXT;
ALTER TABLE ingestion_documents ADD COLUMN refresh_code TEXT;
ALTER TABLE ingestion_documents ADD COLUMN refresh_error TEXT;
ALTER TABLE ingestion_documents ADD COLUMN refresh_failed_at REAL;
CREATE INDEX ingestion_documents_refreshing ON ingestion_documents (refresh_job) WHERE refresh_job IS NOT NULL;
