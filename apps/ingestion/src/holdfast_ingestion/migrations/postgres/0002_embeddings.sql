-- What the passages mean, as numbers: an embedding per chunk.

-- `vector` holds 768 numbers and has the length 1; see embeddings/vectors.py. It goes with its chunk.
-- An embedding of another `model` cannot be compared and is made again. The numbers are a plain array,
-- so that the table is the same with and without pgvector; searches cast it where pgvector is there.
CREATE TABLE ingestion.embeddings (
    chunk  bigint PRIMARY KEY REFERENCES ingestion.chunks (id) ON DELETE CASCADE,
    model  text   NOT NULL,
    vector real[] NOT NULL
);
-- In the row: every search reads all vectors of an organisation.
ALTER TABLE ingestion.embeddings ALTER COLUMN vector SET STORAGE PLAIN;

-- pgvector compares vectors about thirty times as fast as SQL alone. It can be added at any time.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') THEN
        CREATE EXTENSION IF NOT EXISTS vector;
    END IF;
EXCEPTION
    WHEN insufficient_privilege THEN
        RAISE NOTICE 'searches by meaning are slow without pgvector: let a superuser CREATE EXTENSION vector';
END
$$;
