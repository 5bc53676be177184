"""API keys as an engine hands them out."""

import asyncio
import hashlib

import pytest

from holdfast import Engine
from holdfast.jobs.client.api_keys import UnknownKey


@pytest.fixture
def play(tmp_path):
    def run(scenario):
        async def main():
            async with Engine(f"sqlite:///{tmp_path}/work.db") as engine:
                await scenario(engine)

        asyncio.run(main())

    return run


ANN = {"owner": "ann", "organisation": "acme", "name": "laptop"}


def test_a_secret_opens_its_key_until_it_is_revoked(play):
    async def scenario(engine):
        created = await engine.keys.create(**ANN)
        found = await engine.keys.find(created.secret)
        assert found == created.key
        assert (found.owner, found.organisation, found.name) == ("ann", "acme", "laptop")
        await engine.keys.revoke(created.key.id)
        await engine.keys.revoke(created.key.id)
        assert await engine.keys.find(created.secret) is None
        (listed,) = await engine.keys.list()
        assert listed.revoked_at >= listed.created_at

    play(scenario)


def test_a_secret_is_256_random_bits_behind_a_prefix_and_is_shown_by_no_repr(play):
    async def scenario(engine):
        created = [await engine.keys.create(**ANN) for _ in range(20)]
        secrets = {each.secret for each in created}
        assert len(secrets) == len({each.key.id for each in created}) == 20
        assert all(each.startswith("hf_") and len(each) == 3 + 43 for each in secrets)
        assert not any(each.secret in repr(each) for each in created)

    play(scenario)


def test_only_the_hash_of_a_secret_is_in_the_database(play, tmp_path):
    async def scenario(engine):
        created = await engine.keys.create(**ANN)
        rows = await engine.database.fetch("SELECT * FROM holdfast_api_keys")
        stored = " ".join(str(value) for value in rows[0])
        assert created.secret not in stored
        assert hashlib.sha256(created.secret.encode()).hexdigest() in stored
        assert created.secret[:7] in stored
        assert created.secret[:8] not in stored

    play(scenario)


@pytest.mark.parametrize(
    "wrong, line",
    [
        ({"owner": ""}, "owner"),
        ({"name": "two\nlines"}, "name"),
        ({"organisation": "x" * 201}, "organisation must be one line of at most 200"),
        ({"organisation": "session:ann"}, "visitors without a key"),
    ],
)
def test_wrong_names_are_refused(play, wrong, line):
    async def scenario(engine):
        with pytest.raises(ValueError, match=line):
            await engine.keys.create(**{**ANN, **wrong})
        assert await engine.keys.list() == ()

    play(scenario)


@pytest.mark.parametrize(
    "one, other",
    [
        (("acme", "ci"), ("rival", "ci")),
        (("a", "b:c"), ("a:b", "c")),
        (("a", "1:b:c"), ("a:1:b", "c")),
    ],
)
def test_jobs_have_different_owners_where_the_organisation_or_the_owner_differs(play, one, other):
    async def scenario(engine):
        owners = {
            (
                await engine.keys.create(organisation=organisation, owner=owner, name="x")
            ).key.job_owner
            for organisation, owner in (one, other)
        }
        assert len(owners) == 2

    play(scenario)


def test_the_longest_names_make_an_owner_that_jobs_can_have(play):
    async def scenario(engine):
        created = await engine.keys.create(organisation='"' * 200, owner="\\" * 200, name="x")
        assert len(created.key.job_owner) <= 500

    play(scenario)


def test_an_unknown_key_cannot_be_revoked(play):
    async def scenario(engine):
        with pytest.raises(UnknownKey, match="no API key 'nobody'"):
            await engine.keys.revoke("nobody")

    play(scenario)


def test_a_blocking_engine_has_the_same(tmp_path):
    with Engine(f"sqlite:///{tmp_path}/work.db").blocking() as engine:
        created = engine.keys.create(**ANN)
        assert engine.keys.find(created.secret) == created.key == engine.keys.list()[0]
        engine.keys.revoke(created.key.id)
        assert engine.keys.find(created.secret) is None
