"""Refuse to build a package without the files that the pages load from npm.

Hatchling calls this for a wheel and a source distribution. Git does not contain the files, so a
clean clone lacks them until `make assets` has run, and the pages of such a package would not update
by themselves. An editable installation may do without them.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VENDOR = Path("src", "holdfast", "http", "pages", "vendor")
FILES = ("htmx.min.js", "hx-sse.min.js", "LICENSE.htmx")
"""What `scripts/fetch_assets.py` brings."""


class AssetCheck(BuildHookInterface[Any]):
    """Check that the files are there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the base's
        """Abort the build if a file is missing."""
        folder = Path(self.root) / VENDOR
        missing = [name for name in FILES if not (folder / name).is_file()]
        if missing and version != "editable":
            names = ", ".join(missing)
            self.app.abort(f"holdfast: {VENDOR} lacks {names}; run `make assets`, then build again")
