"""What every route of the pages has: the server's renderer, and refusals that are pages."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute

from holdfast.errors import HoldfastError
from holdfast.http.api_errors import as_api_error
from holdfast.http.pages.renderer import Renderer


def renderer_of(request: Request) -> Renderer:
    """Return what renders the pages of the server that was asked."""
    renderer: Renderer = request.app.state.renderer
    return renderer


Pages = Annotated[Renderer, Depends(renderer_of)]
"""The renderer, as a parameter of a route."""


class PageRoute(APIRoute):
    """A route whose refusals are pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, which answers errors of Holdfast with a page."""
        handle = super().get_route_handler()

        async def handle_or_refuse(request: Request) -> Response:
            try:
                return await handle(request)
            except HoldfastError as error:
                return renderer_of(request).refuse(request, as_api_error(request, error))

        return handle_or_refuse
