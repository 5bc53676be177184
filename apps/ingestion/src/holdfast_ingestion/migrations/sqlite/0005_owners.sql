-- What an owner has added: to count its bytes, and to erase it.
CREATE INDEX ingestion_documents_of_owner ON ingestion_documents (owner);
