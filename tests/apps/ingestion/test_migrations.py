"""Migrations of the app's tables keep what is stored, and make it found."""

from importlib.resources import files

import apsw

TEXT = "They hop about at night."


def scripts(dialect):
    """Return the migrations before and after the words were indexed anew."""
    folder = files("holdfast_ingestion").joinpath("migrations", dialect)
    every = sorted(folder.iterdir(), key=lambda file: file.name)
    texts = [(file.name, file.read_text("utf-8")) for file in every]
    before = [text for name, text in texts if name < "0006"]
    (after,) = [text for name, text in texts if name.startswith("0006")]
    return "".join(before), after


def stored(documents, chunks):
    return f"""
    INSERT INTO {documents} (id, organisation, owner, source_key, type, title, created_at)
    VALUES ('d', 'us', 'me', 'key', 'text', 'Quokka guide', 0);
    INSERT INTO {chunks} (document, position, start_offset, end_offset, text)
    VALUES ('d', 0, 0, 24, '{TEXT}'), ('d', 1, 24, 48, 'Also by day.');
    """


def test_titles_of_stored_documents_are_indexed_on_sqlite():
    before, after = scripts("sqlite")
    database = apsw.Connection(":memory:")
    database.execute(before + stored("ingestion_documents", "ingestion_chunks"))
    database.execute(after)

    found = "SELECT text FROM ingestion_words WHERE ingestion_words MATCH ?"
    assert database.execute(found, ("quokkas",)).fetchall() == [(TEXT,)]
    assert database.execute(found, ("day",)).fetchall() == [("Also by day.",)]
    database.execute("DELETE FROM ingestion_chunks")
    assert database.execute(found, ("quokkas",)).fetchall() == []


def test_titles_of_stored_documents_are_indexed_on_postgresql(postgres_server):
    before, after = scripts("postgres")
    name = postgres_server.create_database()
    try:
        postgres_server.execute(before, name)
        postgres_server.execute(stored("ingestion.documents", "ingestion.chunks"), name)
        postgres_server.execute(after, name)
        found = (
            "SELECT text FROM ingestion.chunks WHERE words @@ plainto_tsquery('ingestion.words', "
        )
        assert postgres_server.execute(f"{found}'quokkas')", name) == [(TEXT,)]
        assert postgres_server.execute(f"{found}'day')", name) == [("Also by day.",)]
    finally:
        postgres_server.drop_database(name)
