"""Arguments as operators see them."""

import json

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
