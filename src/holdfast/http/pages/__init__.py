"""The pages, rendered on the server over the same site as the API."""

from fastapi import FastAPI

from holdfast.http.site import Site


def add_pages(app: FastAPI, site: Site) -> None:
    """Add the pages and their files to `app`."""
    del app, site
