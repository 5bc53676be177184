"""Each store in turn, for services that are configured by the environment."""

import pytest


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def new_database(request):
    """A function that returns the settings of an empty store of this kind.

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
