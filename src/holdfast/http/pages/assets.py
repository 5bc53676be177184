"""The files that pages load: read once, served under a name that changes with their content."""

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

PREFIX = "/static/"
_HERE = Path(__file__).parent
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOR_GOOD = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"
_log = logging.getLogger("holdfast.http")

LIVE_SCRIPTS = ("htmx.min.js", "hx-sse.min.js")
"""Files from npm. Without them pages work as forms."""


@dataclass(frozen=True, slots=True)
class Asset:
    """One file: its `content`, and a `mark` that is another for another content."""

    content: bytes
    media_type: str
    mark: str


class Assets:
    """All files that the pages load, by name."""

    def __init__(self) -> None:
        self._assets: dict[str, Asset] = {}

    def add(self, folder: Path, prefix: str = "") -> None:
        """Add the files that stand in `folder`, each under `prefix` and its own name."""
        for path in sorted(folder.glob("*")):
            media_type = _TYPES.get(path.suffix)
            if media_type is not None:
                content = path.read_bytes()
                mark = hashlib.sha256(content).hexdigest()[:12]
                self._assets[prefix + path.name] = Asset(content, media_type, mark)

    def get(self, name: str) -> Asset | None:
        """Return the file called `name`."""
        return self._assets.get(name)

    def url(self, name: str) -> str:
        """Return the address of the file called `name`.

        Raises:
            KeyError: there is none.
        """
        return f"{PREFIX}{name}?v={self._assets[name].mark}"

    def live_scripts(self) -> list[str]:
        """Return the addresses of what makes pages live; none where any of it is missing."""
        if any(name not in self._assets for name in LIVE_SCRIPTS):
            return []
        return [self.url(name) for name in LIVE_SCRIPTS]

    def routes(self) -> APIRouter:
        """Return the route that serves them."""
        router = APIRouter(include_in_schema=False)

        @router.get("/favicon.ico")
        async def favicon(request: Request) -> Response:
            # Browsers ask for it by this name on answers that are not our pages.
            return await asset(request, "favicon.svg")

        @router.get(PREFIX + "{name:path}")
        async def asset(request: Request, name: str, v: str = "") -> Response:
            found = self.get(name)
            if found is None:
                raise HTTPException(404)
            headers = {
                "etag": f'"{found.mark}"',
                "cache-control": _FOR_GOOD if v == found.mark else _ASK_AGAIN,
            }
            if request.headers.get("if-none-match") == headers["etag"]:
                return Response(status_code=304, headers=headers)
            return Response(found.content, media_type=found.media_type, headers=headers)

        return router


def page_assets() -> Assets:
    """Return the files of all pages."""
    assets = Assets()
    assets.add(_HERE / "static")
    assets.add(_HERE / "vendor")
    return assets


def common_assets() -> Assets:
    """Return the files of all pages; log a warning where those from npm are missing."""
    assets = page_assets()
    if not assets.live_scripts():
        _log.warning(
            "htmx is not there, so the pages do not update by themselves; `make assets` brings it"
        )
    return assets
