"""The site of the documentation: `make docs` builds it with Sphinx into build/docs."""

import tomllib
from pathlib import Path

_PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"

project = "Holdfast"
release = tomllib.loads(_PYPROJECT.read_text("utf-8"))["project"]["version"]
copyright = "The Holdfast authors"  # noqa: A001 - Sphinx asks for this name
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
# README.md is the table of contents for those who read the files themselves.
exclude_patterns = ["README.md"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Holdfast"
# Diagrams of state machines stay text: no page loads a script from another host.
suppress_warnings = ["misc.highlighting_failure"]
