"""The names of concepts: cleaned for people, normalised to be compared, hashed to be addressed."""

import hashlib
import re
import unicodedata

MOST_CHARACTERS = 80
"""Longest name; what is longer is no name."""
_APART = re.compile(r"[\s_-]+")
_OUTSIDE = re.compile(r"^\W+|\W+$")


def cleaned(text: str, most: int = MOST_CHARACTERS) -> str | None:
    """Return a name or label as it is shown: one line, without invisible characters.

    None where nothing is left, or more than `most` characters.
    """
    visible = "".join(
        " " if unicodedata.category(each) in {"Cc", "Zl", "Zp"} else each
        for each in text
        if unicodedata.category(each) not in {"Cf", "Cs", "Co", "Cn"}
    )
    line = " ".join(visible.split())
    return line if 0 < len(line) <= most else None


def normalised(name: str) -> str:
    """Return what two spellings of one name have in common.

    Case, width, hyphens and spaces do not count, nor punctuation around the name; "" where there is
    nothing else.
    """
    folded = unicodedata.normalize("NFKC", name).casefold()
    return _OUTSIDE.sub("", _APART.sub(" ", folded))


def concept_id(normalised_name: str) -> str:
    """Return the id of the concept with this name; it says nothing of an organisation."""
    return hashlib.sha256(normalised_name.encode("utf-8", "replace")).hexdigest()[:24]
