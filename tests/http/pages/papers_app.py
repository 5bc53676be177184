"""An app with pages of its own, for tests."""

from pathlib import Path

from fastapi import APIRouter, Request
from tests.http.live_server import Order

from holdfast import App, Downstream, JobContext
from holdfast.http import NavItem, ServedApp

PAGE = """
{% extends "layout.html" %}
{% block title %}Papers{% endblock %}
{% block head %}<link rel="stylesheet" href="{{ asset("papers/papers.css") }}">{% endblock %}
{% block main %}{% include "papers/list.html" %}{% endblock %}
"""
LIST = '<section id="board"><h1>Papers</h1><p>{{ words }}</p></section>'


def papers_app():
    app = App("papers")

    @app.job(aliases=("skim",), downstream=Downstream("shelf"))
    async def read(ctx: JobContext, args: Order) -> int:
        return args.number

    return app


class PapersApp(ServedApp):
    """An app with pages of its own and none of the front page."""

    navigation = (NavItem("Papers", "/papers"), NavItem("Search", "/papers/search"))

    def __init__(self, folder: Path) -> None:
        super().__init__(papers_app())
        (folder / "templates").mkdir(parents=True)
        (folder / "static").mkdir()
        (folder / "templates/papers.html").write_text(PAGE)
        (folder / "templates/list.html").write_text(LIST)
        (folder / "static/papers.css").write_text("p {}")
        self.folder = folder

    def pages(self, pages):
        router = APIRouter()

        @router.get("/papers")
        @router.get("/papers/search")
        @router.get("/papers/{number}")
        async def show(request: Request, number: str = ""):
            return pages.answer(
                request, "papers.html", part="list.html", words="<b>", note=number,
                sequence=await pages.sequence(),
            )  # fmt: skip

        return router
