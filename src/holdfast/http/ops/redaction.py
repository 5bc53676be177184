"""Arguments and results as operators see them: JSON without what looks like a secret."""

import json
import re
from typing import Any

_SECRET = re.compile(
    r"pass$|pass(word|wd|phrase)|pwd|secret|token|(api|access)[-_]?key|bearer|signature"
    r"|auth(?!or)|authori[sz]ation|credential|cookie|private",
    re.IGNORECASE,
)
"""A part of a name that looks like a secret's; an author is none."""
_HIDDEN = "••••••"
_LONGEST = 20_000
"""Characters of JSON that a page shows."""


def shown_json(text: str | None) -> str:
    """Return JSON text indented, with the values of secret-looking names hidden; "" for None."""
    if text is None:
        return ""
    try:
        shown = json.dumps(_redacted(json.loads(text)), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "This is not JSON and is not shown."
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}\n…"


def _redacted(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _HIDDEN if _SECRET.search(str(key)) and each else _redacted(each)
            for key, each in value.items()
        }
    return [_redacted(each) for each in value] if isinstance(value, list) else value
