CREATE TABLE notes.words (note bigint NOT NULL REFERENCES notes.notes (id), word text NOT NULL);
