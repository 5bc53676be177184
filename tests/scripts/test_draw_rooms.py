"""The pictures of the architecture match the imports."""

import re

import grimp
import pytest
from scripts import draw_rooms, generate_docs


@pytest.fixture
def graph():
    """A shop: `web` over `orders` over two single files; `orders` and `stock` have files inside."""
    graph = grimp.ImportGraph()
    inside = ["shop.web", "shop.web.pages", "shop.orders", "shop.orders.model", "shop.stock"]
    for module in ["shop", *inside, "shop.stock.count", "shop.clock", "shop.errors"]:
        graph.add_module(module)
    for importer, imported in [
        ("shop.web.pages", "shop.orders.model"),
        ("shop.web", "shop.errors"),
        ("shop.orders.model", "shop.clock"),
        ("shop.orders", "shop.orders.model"),
        ("shop.clock", "shop.errors"),
        ("shop.stock.count", "shop.errors"),
    ]:
        graph.add_import(importer=importer, imported=imported)
    return graph


LAYERS = ["(web)", "orders | stock | (planned)", "clock", "errors"]


def described(svg):
    return re.search("<desc>(.*)</desc>", svg).group(1).split("; ")


def test_an_arrow_is_an_import_unless_others_imply_it(graph):
    assert described(draw_rooms.draw(graph, "shop", LAYERS)) == [
        "web imports orders",
        "orders imports shared modules",
        "stock imports shared modules",
    ]


def test_a_new_direction_changes_the_picture_and_a_new_file_inside_a_room_does_not(graph):
    before = draw_rooms.draw(graph, "shop", LAYERS)
    graph.add_import(importer="shop.orders.prices", imported="shop.errors")
    assert draw_rooms.draw(graph, "shop", LAYERS) == before

    graph.add_import(importer="shop.web.pages", imported="shop.stock.count")
    assert "web imports stock" in described(draw_rooms.draw(graph, "shop", LAYERS))


def test_a_picture_that_differs_from_the_code_is_reported(monkeypatch):
    drawn = {"docs/explanation/images/holdfast.svg": "<svg/>"}
    monkeypatch.setattr(draw_rooms, "pictures", lambda: drawn)

    assert generate_docs.stale(write=False) == list(drawn)
