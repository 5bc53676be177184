"""The named SQL of the app: `sql/common` for both databases, and a folder for what differs.

`-- name: get` begins a statement, `-- fragment: columns` a piece of text that others include as
`{{columns}}`. Comments at the end of a block speak of the next one and are left out.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

_FOLDERS = {"sqlite": "sqlite", "postgresql": "postgres"}
_HEADER = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_LAST_COMMENTS = re.compile(r"(\n\s*--[^\n]*)+\s*\Z")
_INCLUDE = re.compile(r"\{\{(\w+)\}\}")


@cache
def load_queries(dialect: str) -> Mapping[str, str]:
    """Return the statements for `dialect`, by name.

    Raises:
        KeyError: there is no such dialect, or a fragment is missing.
        ValueError: a name is given twice.
    """
    blocks: dict[str, dict[str, str]] = {"name": {}, "fragment": {}}
    for folder in ("common", _FOLDERS[dialect]):
        for file in files(__package__).joinpath("sql").joinpath(folder).iterdir():
            parts = _HEADER.split(file.read_text(encoding="utf-8"))
            for what, name, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
                if name in blocks[what]:
                    raise ValueError(f"{file.name}: the {what} {name!r} is there twice")
                blocks[what][name] = _LAST_COMMENTS.sub("", text).strip()

    def whole(text: str) -> str:
        return _INCLUDE.sub(lambda match: whole(blocks["fragment"][match[1]]), text)

    return MappingProxyType({name: whole(text) for name, text in blocks["name"].items()})
