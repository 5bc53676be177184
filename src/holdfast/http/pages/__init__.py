"""What people see in a browser, rendered on the server over the same site as the API.

Every page works as forms and links alone. htmx, where it was fetched, asks for the part that
changes whenever the stream of events says that something has, and morphs it into place; one small
ES module counts down, listens to keys and pauses. An app adds its own part, see `PagePart`.
"""

from fastapi import FastAPI

from holdfast.http.pages.frame import Frame
from holdfast.http.pages.routes import page_routes
from holdfast.http.site import Site


def add_pages(app: FastAPI, site: Site) -> None:
    """Add the pages and their files to `app`."""
    frame = Frame(site)
    site.refusal_page = frame.refuse
    app.include_router(page_routes(frame))
    app.include_router(frame.assets.routes())
