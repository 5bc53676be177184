-- What the passages mean, as numbers: an embedding per chunk.

-- `vector` holds 768 numbers of 4 bytes, little-endian, of length 1; see embeddings/vectors.py. It
-- goes with its chunk. An embedding of another `model` cannot be compared and is made again.
CREATE TABLE ingestion_embeddings (
    chunk  INTEGER PRIMARY KEY REFERENCES ingestion_chunks (id) ON DELETE CASCADE,
    model  TEXT    NOT NULL,
    vector BLOB    NOT NULL
) STRICT;
