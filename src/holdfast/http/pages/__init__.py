"""The pages, rendered on the server over the same state as the API.

Every page works as forms and links alone. htmx, where it was fetched, asks for the part that
changes whenever the stream of events says that something has, and morphs it into place; one small
ES module counts down, listens to keys and pauses. An app adds its own part, see `PagePart`, or
pages of its own, see `ServedApp.pages`.
"""

from fastapi import FastAPI

from holdfast.http.pages import bulk_routes, page_routes
from holdfast.http.pages.own_pages import own_page_routes
from holdfast.http.pages.renderer import Renderer
from holdfast.http.served_app import ServerState


def add_pages(app: FastAPI, state: ServerState) -> None:
    """Add the pages and their files to `app`."""
    renderer = Renderer(state)
    app.state.renderer = renderer
    app.state.refusal_page = renderer.refuse
    # Not included, see `create_app`: they are complete.
    app.router.routes.extend([*page_routes.router.routes, *bulk_routes.router.routes])
    for routes in own_page_routes(renderer):
        app.include_router(routes, include_in_schema=False)
    app.router.routes.extend(renderer.assets.routes().routes)
