CREATE SCHEMA notes;
CREATE TABLE notes.notes (id bigint PRIMARY KEY, body text NOT NULL);
