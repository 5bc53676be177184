"""Arguments as operators see them."""

import json

import pytest

from holdfast.http.ops.redaction import shown_json


def test_values_of_secret_names_are_hidden_at_every_depth():
    text = shown_json('{"a": [{"apiKey": "x", "password": "y", "n": 1}], "token": null}')
    assert json.loads(text) == {
        "a": [{"apiKey": "••••••", "password": "••••••", "n": 1}],
        "token": None,
    }


def test_what_is_no_json_or_very_long_is_not_shown_whole():
    assert shown_json(None) == ""
    assert shown_json("{") == "This is not JSON and is not shown."
    assert len(shown_json(json.dumps("x" * 50_000))) < 20_100


@pytest.mark.parametrize(
    "name",
    [
        "pwd", "dbPwd", "passwordHash", "access_key", "AWSAccessKeyId", "bearer", "BEARER_VALUE",
        "signature", "x-signature-v2", "auth", "basicAuth", "oauth2", "authorisation",
    ],
)  # fmt: skip
def test_a_secret_is_known_by_a_part_of_its_name(name):
    assert json.loads(shown_json(json.dumps({name: "x"}))) == {name: "••••••"}


@pytest.mark.parametrize("name", ["author", "coAuthors", "passed", "passage"])
def test_names_that_only_begin_like_a_secret_are_shown(name):
    assert json.loads(shown_json(json.dumps({name: "x"}))) == {name: "x"}
