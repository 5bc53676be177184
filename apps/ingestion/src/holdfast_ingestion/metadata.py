"""The `metadata` of documents: checked when it is taken in, read from the database, filtered by."""

import contextlib
import json
import re
import sys
from collections.abc import Mapping
from typing import Any

from holdfast import ErrorCode
from holdfast.http import ApiError
from holdfast_ingestion.extraction.plain_text import normalised

MOST_LEVELS = 20
"""How deeply objects and lists may be nested; the object itself is the first level. JSON libraries
give up on deep values, each at a depth of its own."""
_MOST_KEYS = 50
_LONGEST_KEY = 100
_MOST_BYTES = 16 * 1024
_UNSTORABLE = re.compile("[\ud800-\udfff]|" r"(?<!\\)(?:\\\\)*\\u0000")
"""In JSON: half a character, or NUL, which is escaped. A backslash in a text is escaped itself."""
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def parsed_metadata(text: str | None) -> object:
    """Return the `metadata` of a form, which is JSON.

    Raises:
        ApiError: it is not.
    """
    try:
        return json.loads(text) if text else None
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError:
        raise _invalid("metadata must be JSON.") from None
    except ValueError:
        raise too_many_digits() from None


def checked_metadata(value: object) -> Mapping[str, Any]:
    """Return `value` if it can be stored and given out again; none is an empty object.

    Raises:
        ApiError: it cannot.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _invalid('metadata must be an object, such as {"team": "blue"}.')
    text = _written(value)
    if len(value) > _MOST_KEYS or len(text.encode("utf-8", "replace")) > _MOST_BYTES:
        raise _invalid(f"metadata may have {_MOST_KEYS} keys and {_MOST_BYTES} bytes.")
    if any(not (normalised(key) and len(key) <= _LONGEST_KEY) for key in value):
        raise _invalid(f"A key of metadata has 1 to {_LONGEST_KEY} characters.")
    if len(set(map(normalised, value))) < len(value):
        raise _invalid("Two keys of metadata are the same in different spellings.")
    if _UNSTORABLE.search(text):
        raise _invalid("metadata has a character that cannot be stored.")
    if _levels(text) > MOST_LEVELS:
        raise _too_deep()
    return value


def stored_metadata(text: str) -> dict[str, Any]:
    """Return metadata that was stored as JSON.

    An earlier release took in any depth. What is too deep to be read or written again is given out
    as the text that it is, under the key `json`.
    """
    if _levels(text) > MOST_LEVELS:
        return {"json": text}
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def filter_text(value: object) -> str:
    """Return a value of metadata as filters compare it: strings in one spelling, others as JSON."""
    if isinstance(value, str):
        return normalised(value)
    return json.dumps(_comparable(value), sort_keys=True)


def is_filter(text: str) -> bool:
    """Say whether `text` is written `key:value`; the key may have colons too."""
    return ":" in text.strip()[1:]


def filter_spellings(text: str) -> list[str]:
    """Return what `text`, a filter `key:value`, may be stored as: a key, a colon and `filter_text`.

    Any colon may be the one between the key and the value, and blanks beside it do not count. An
    earlier release stored values in the spelling in which they came, so `text` itself is one too.
    """
    found = {text: None, normalised(text): None}
    for colon in re.finditer(":", text[: _LONGEST_KEY + 1]):
        key, value = text[: colon.start()].strip(), text[colon.end() :].strip()
        found |= dict.fromkeys((f"{key}:{value}", normalised(f"{key}:{value}")))
        with contextlib.suppress(ValueError, RecursionError):  # it is no JSON
            found[f"{normalised(key)}:{filter_text(json.loads(value))}"] = None
    return list(found)


def _comparable(value: object) -> object:
    """Return JSON with 1.0 as 1 and with strings in one spelling."""
    match value:
        case str():
            return normalised(value)
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_comparable(each) for each in value]
        case dict():
            return {normalised(key): _comparable(each) for key, each in value.items()}
    return value


def _written(value: dict[str, Any]) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        line = "A number in metadata must be finite: JSON has no NaN and no Infinity."
        raise _invalid(line) from None


def _levels(text: str) -> int:
    """Return how deeply the JSON `text` is nested, without recursion."""
    level = deepest = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        if found[0] in "[{":
            level += 1
            deepest = max(deepest, level)
        elif found[0] in "]}":
            level -= 1
    return deepest


def too_many_digits() -> ApiError:
    """Return the refusal of JSON with a number that Python does not read."""
    most = sys.get_int_max_str_digits()
    return _invalid(f"A number may have {most} digits, and one of these has more.")


def _too_deep() -> ApiError:
    return _invalid(f"metadata may be nested {MOST_LEVELS} levels deep, and this is deeper.")


def _invalid(line: str) -> ApiError:
    return ApiError(ErrorCode.VALIDATION_ERROR, line)
