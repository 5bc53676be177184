"""Each store in turn."""

import pytest


@pytest.fixture
def sqlite_url(tmp_path):
    """The address of an empty SQLite database."""
    return f"sqlite:///{tmp_path / 'work.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request):
    """The address of an empty database of each kind.

    A folder that uses it must also import `sqlite_url`, and `tests.support.postgres`' fixtures.
    """
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def new_database(request):
    """A function that returns the environment of a service with an empty store of this kind.

    A module that uses it must import the fixtures `postgres_server` and `postgres_template`.
    """
    if request.param == "sqlite":
        yield dict  # none: the file below the service's own folder
        return
    server = request.getfixturevalue("postgres_server")
    template = request.getfixturevalue("postgres_template")
    names = []

    def create():
        names.append(server.create_database(template))
        return {"HOLDFAST_DATABASE_URL": server.url(names[-1])}

    yield create
    for name in names:
        server.drop_database(name)
