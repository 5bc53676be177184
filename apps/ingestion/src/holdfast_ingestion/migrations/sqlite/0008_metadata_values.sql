-- Filters look up by document and key, which is the primary key.
DROP INDEX ingestion_metadata_by_value;
