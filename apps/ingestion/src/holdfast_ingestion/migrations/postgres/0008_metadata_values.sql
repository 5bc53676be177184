-- An entry of a B-tree has at most 2704 bytes, and a value may be longer. Filters look up by document and
-- key, which is the primary key.
DROP INDEX ingestion.metadata_by_value;
