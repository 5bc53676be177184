"""`holdfast keys`: create, list, revoke."""

import asyncio
import json

import pytest

from holdfast import Engine


@pytest.fixture
def run(tmp_path, run_on):
    """A function that runs `holdfast keys ...` and returns the exit code and what it printed."""
    url = f"sqlite:///{tmp_path / 'work.db'}"

    def call(*words):
        return run_on(url, "keys", *words)

    call.url = url
    return call


def rows(text):
    header, *lines = [line.split("\t") for line in text.splitlines()]
    return [dict(zip(header, line, strict=True)) for line in lines]


def test_a_created_key_is_listed_without_its_secret_and_opens_until_it_is_revoked(run):
    async def found(secret):
        async with Engine(run.url) as engine:
            return await engine.keys.find(secret)

    code, secret, _ = run("create", "laptop of Ann", "--organisation", "acme", "--owner", "ann")
    assert code == 0
    assert asyncio.run(found(secret)).owner == "ann"

    _, listed, _ = run("list")
    (row,) = rows(listed)
    assert (row["name"], row["owner"], row["organisation"]) == ("laptop of Ann", "ann", "acme")
    assert row["job_owner"] == "key:4:acme:ann"
    assert row["revoked"] == "-"
    assert secret.startswith(row["begins"])
    assert secret not in listed

    assert run("revoke", row["id"])[0] == 0
    assert asyncio.run(found(secret)) is None
    assert rows(run("list")[1])[0]["revoked"].endswith("Z")


def test_a_key_is_created_as_json_with_its_id_and_its_secret(run):
    code, out, _ = run("create", "laptop", "--organisation", "acme", "--json")
    created = json.loads(out)
    assert (code, created["owner"], created["organisation"]) == (0, "acme", "acme")
    assert created["secret"].startswith(created["begins"])
    assert rows(run("list")[1])[0]["id"] == created["id"]


def test_the_owner_is_by_default_called_as_the_organisation(run):
    run("create", "laptop", "--organisation", "acme")
    assert rows(run("list")[1])[0]["owner"] == "acme"


@pytest.mark.parametrize(
    "words, line",
    [
        (["create", "", "--organisation", "acme"], "name"),
        (["create", "x", "--organisation", ""], "organisation"),
        (["create", "x", "--organisation", "session:x"], "visitors without a key"),
        (["revoke", "nobody"], "there is no API key 'nobody'; see: holdfast keys list"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_code_2(run, words, line):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert line in err
    assert "\n" not in err
