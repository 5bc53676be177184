-- What an owner has added: to count its bytes, and to erase it.
CREATE INDEX documents_of_owner ON ingestion.documents (owner);
