"""Read named queries from `.sql` files.

A file holds blocks. `-- name: claim` begins a query, `-- fragment: job_columns` a piece of text
that queries include as `{{job_columns}}`. Comments at the end of a block speak of the next one and
are left out; others stay in the text, and the databases skip them.
"""

import re
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType

_HEADER = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_LAST_COMMENTS = re.compile(r"(\n\s*--[^\n]*)+\s*\Z")
_INCLUDE = re.compile(r"\{\{(\w+)\}\}")


def load_queries(package: str, folder: str = "sql") -> Mapping[str, str]:
    """Return the queries by name that the files of `folder` in `package` hold.

    Raises:
        ValueError: a name is given twice, or a fragment is missing.
    """
    blocks: dict[str, dict[str, str]] = {"name": {}, "fragment": {}}
    for file in sql_files(package, folder):
        parts = _HEADER.split(file.read_text(encoding="utf-8"))
        for what, name, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            if name in blocks[what]:
                raise ValueError(f"{file.name}: the {what} {name!r} is there twice")
            blocks[what][name] = _LAST_COMMENTS.sub("", text).strip().rstrip(";")
    fragments = blocks["fragment"]

    def included(match: re.Match[str]) -> str:
        if match[1] not in fragments:
            raise ValueError(f"no such fragment: {match[1]!r}")
        return fragments[match[1]]

    queries = {name: _INCLUDE.sub(included, text) for name, text in blocks["name"].items()}
    return MappingProxyType(queries)


def sql_files(package: str, folder: str) -> list[Traversable]:
    """Return the `.sql` files of `folder` in `package`, by name; none where it is missing."""
    here = files(package)
    for part in folder.split("/"):
        here = here.joinpath(part)
    if not here.is_dir():
        return []
    return sorted(
        (file for file in here.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name
    )
